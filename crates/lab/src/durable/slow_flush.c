/* A plugin of nbdkit: serves a file; a flush sleeps for some microseconds and does nothing else. */
#define NBDKIT_API_VERSION 2
#include <errno.h>
#include <fcntl.h>
#include <nbdkit-plugin.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

static int file = -1;
static long flush_us;

static int set(const char *key, const char *value) {
    if (strcmp(key, "us") == 0) {
        flush_us = atol(value);
        return 0;
    }
    file = open(value, O_RDWR | O_CLOEXEC);
    if (file < 0)
        nbdkit_error("%s: %s", value, strerror(errno));
    return file < 0 ? -1 : 0;
}

static void *start(int readonly) {
    return &file;
}

static int64_t size(void *handle) {
    struct stat found;
    return fstat(file, &found) < 0 ? -1 : found.st_size;
}

static int read_at(void *handle, void *buffer, uint32_t count, uint64_t at, uint32_t flags) {
    return pread(file, buffer, count, at) == count ? 0 : -1;
}

static int write_at(void *handle, const void *buffer, uint32_t count, uint64_t at,
                    uint32_t flags) {
    return pwrite(file, buffer, count, at) == count ? 0 : -1;
}

static int flush(void *handle, uint32_t flags) {
    struct timespec time = {flush_us / 1000000, flush_us % 1000000 * 1000};
    /* The kernel may round a sleep up by 50 us otherwise. */
    prctl(PR_SET_TIMERSLACK, 1);
    nanosleep(&time, NULL);
    return 0;
}

static int yes(void *handle) {
    return 1;
}

static struct nbdkit_plugin plugin = {
    .name = "slow_flush",
    .config = set,
    .open = start,
    .get_size = size,
    .pread = read_at,
    .pwrite = write_at,
    .flush = flush,
    .can_flush = yes,
    .can_multi_conn = yes,
};

NBDKIT_REGISTER_PLUGIN(plugin)
