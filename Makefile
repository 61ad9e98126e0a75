# The front door. Targets that need root say so.

.PHONY: help deps tools check lint quick test test-build test-it test-rest test-beside schedules simulate simulated simulator report validate regress boot crates coverage quickstart lab build install uninstall deb static package-test

# Programs of e2fsprogs are outside of the search path of ordinary users of Debian.
export PATH := $(PATH):/usr/sbin:/sbin

# What the tests need beside Rust: FUSE, the reference tools, tar with attributes and ACLs.
DEB_PACKAGES = fuse3 mount python3 e2fsprogs attr acl tar util-linux coreutils fdisk git rsync fio sqlite3 libarchive-tools umoci skopeo xz-utils zstd bzip2 lz4 \
	strace nbdkit nbdkit-plugin-dev libnbd-bin qemu-utils gdisk cryptsetup-bin android-sdk-libsparse-utils
NEEDED_TOOLS = fusermount3 python3 setpriv unshare findmnt mke2fs e2fsck debugfs dumpe2fs getfattr getfacl tar losetup sfdisk mount timeout git rsync fio sqlite3 bsdtar umoci skopeo xz zstd bzip2 lz4 strace nbdkit nbdfuse qemu-img sgdisk veritysetup simg2img
NEEDED_HEADERS = /usr/include/nbdkit-plugin.h

help: ## Show the targets.
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 16

deps: ## Install the system packages of the tests; without root, say which.
	@missing=""; \
	for tool in $(NEEDED_TOOLS); do \
	  command -v $$tool >/dev/null 2>&1 || missing="$$missing $$tool"; \
	done; \
	for header in $(NEEDED_HEADERS); do test -e $$header || missing="$$missing $$header"; done; \
	if [ -z "$$missing" ]; then echo "deps: all there"; exit 0; fi; \
	echo "deps: missing:$$missing"; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(DEB_PACKAGES); \
	else \
	  echo "deps: an administrator of Debian or Ubuntu installs them with:"; \
	  echo "  apt-get install $(DEB_PACKAGES)"; exit 1; \
	fi

check: lint ## Format, lints, documentation and house rules, without tests.
	cargo xtask tidy

# Beside builds and tests, hence in a target directory of its own.
LINTED = CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/lint cargo

# The second run of clippy sees the library without `experiments`, which the workspace turns on.
lint:
	cargo fmt --all --check
	+$(LINTED) clippy --workspace --all-targets --quiet -- -D warnings
	+$(LINTED) clippy --package uext4 --quiet -- -D warnings
	+RUSTDOCFLAGS="-D warnings" $(LINTED) doc --workspace --no-deps --quiet

# Models and long sequences, which take minutes without optimisation; `make test` runs them.
SLOW = file::tests map::tests dir::tests relocate::tests xattr::tests clock::tests dentries::tests \
	space::tests::damaged
quick: ## Between edits: format, house rules and most unit tests; ARGS="--package uext4-journal".
	@cargo fmt --all --check
	+@cargo run --profile quick --quiet --package xtask -- tidy
	+@cargo test --profile quick $(if $(ARGS),$(ARGS),--workspace) --lib --bins --quiet -- $(SLOW:%=--skip %)

# The suite of POSIX tests, from the registry: a minute the first time.
tools: ## Install the test suites that cargo knows into target/tools.
	@test -x target/tools/bin/pjdfstest || \
	  cargo install --debug --quiet pjdfstest --version 0.2.2 --locked --root target/tools || \
	  echo "tools: no pjdfstest; its tests are skipped"

# Many tests wait for a device, a mount or a process, and much of a build is in one thread: so lints
# and the builds with other flags fill the time that tests leave, at the lowest priority.
BESIDE = $(MAKE) --no-print-directory --jobs=4 --output-sync=target

# Tests add a line here for each part that they leave out, and why.
SKIPPED = $${CARGO_TARGET_DIR:-target}/skipped-tests
# Where the packages cannot be installed, the tests that need no others run all the same.
DEPS_OR_LESS = $(MAKE) --no-print-directory deps || test "$$CI" != true

test: ## All checks and all tests that can run here; lists what it left out.
	@$(DEPS_OR_LESS)
	@mkdir -p "$(SKIPPED)" && rm -f "$(SKIPPED)"/*
	@UEXT4_SKIPPED="$$(realpath "$(SKIPPED)")/tests" $(BESIDE) test-it test-rest test-beside
	@sh scripts/skipped.sh "$(SKIPPED)/tests"

test-beside: # What runs no process and mounts nothing.
	+@nice -n 19 $(MAKE) --no-print-directory lint schedules simulated

test-build: tools
	+cargo test --workspace --quiet --no-run

test-it: test-build # The integration tests named `it`.
	+cargo test --workspace --quiet --test it

test-rest: test-build # House rules, and all other tests.
	@"$(BUILT)/debug/xtask" tidy
	+cargo test --workspace --quiet --lib --bins --test '[!i]*'
	+cargo test --workspace --quiet --doc

# A build of its own: the flag is for the whole build.
SHUTTLE = RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/shuttle cargo test --quiet --lib

schedules: ## What threads may do to each other, tried by the model checker.
	+$(SHUTTLE) --package uext4-sync --package uext4-schedules
	+$(SHUTTLE) --package uext4-journal model

# As above, with the simulator's types.
SIMULATED = RUSTFLAGS="--cfg simulated" CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/simulated cargo

simulate: ## Simulate many cores; ARGS="fallocate2 --cores 1,64 --machine kunpeng-920".
	@$(SIMULATED) run --quiet --profile fast --package uext4-lab -- simulate $(ARGS)

simulated: ## The tests of the simulator.
	+$(SIMULATED) test --quiet --package uext4-sync --lib
	+$(SIMULATED) test --quiet --package uext4-lab --bin uext4-lab simulate

SIMULATOR = $(BUILT)/simulated/fast/uext4-lab

# Both builds, and what they are for.
simulator:
	@$(SIMULATED) build --quiet --profile fast --package uext4-lab
	@cargo build --quiet --release --package uext4-lab

report: simulator ## Our numbers beside those of the documents: target/report/report.html; ARGS="--full".
	@$(BUILT)/release/uext4-lab report --out $(BUILT)/report --simulator $(SIMULATOR) $(ARGS)

validate: simulator ## The simulator of this machine beside the machine itself.
	@$(BUILT)/release/uext4-lab validate --simulator $(SIMULATOR) $(ARGS)

regress: ## The speed of OLD=REVISION beside the working tree's; ARGS="--pairs 7 --only mdtest".
	@test -n "$(OLD)" || { echo "regress: say OLD=REVISION"; exit 2; }
	@cargo xtask regress --old "$(OLD)" $(ARGS)

BOOT_PACKAGES = mmdebstrap qemu-system-x86

boot: deps ## Boot a Debian of `uext4 build` in QEMU (root, network; four minutes).
	@command -v mmdebstrap qemu-system-x86_64 >/dev/null || apt-get install -y -qq $(BOOT_PACKAGES)
	cargo test --quiet --package uext4-tools --test it boots -- --ignored --nocapture

PUBLISHED = uext4-num uext4-sync uext4-format uext4-device uext4-journal uext4-alloc uext4-mkfs \
	uext4-volume uext4-offline uext4-fsck uext4-forensics uext4-builder uext4-archive \
	uext4-image uext4 uext4-tree uext4-fuse uext4-tools

crates: ## Package the crates that are published, and build each from its package.
	cargo package $(PUBLISHED:%=--package %)

coverage: ## Line coverage of each crate by all tests; PACKAGES="uext4-format" for some.
	@test -x target/tools/bin/cargo-llvm-cov || \
	  cargo install --quiet cargo-llvm-cov --version 0.9.1 --locked --root target/tools
	rustup component add llvm-tools
	sh scripts/coverage.sh $(PACKAGES)

quickstart: ## Make an image, mount it, use it, check it. Leaves nothing behind.
	sh scripts/quickstart.sh

lab: ## Build the experiments and show what they are.
	cargo run --release --quiet --package uext4-lab -- --help

# Where `make install` puts things. mount(8) looks for its helpers in /sbin only: a PREFIX of /usr
# serves it, any other needs SBINDIR=/sbin for `mount -t fuse.uext4`.
PREFIX ?= /usr/local
SBINDIR ?= $(PREFIX)/sbin
DESTDIR ?=
BUILT = $${CARGO_TARGET_DIR:-target}
STATIC_TARGET = $(shell uname -m)-unknown-linux-musl

build: ## Build the tool (release).
	cargo build --release --package uext4-tools

install: build ## Install the tool, helpers, man pages, completions and unit below PREFIX.
	@sh packaging/stage.sh "$(BUILT)/release/uext4" "$(DESTDIR)" "$(PREFIX)" "$(SBINDIR)"

uninstall: ## Remove what `make install` put there.
	@sh packaging/unstage.sh "$(DESTDIR)" "$(PREFIX)" "$(SBINDIR)"

deb: build ## Make a Debian package: target/package/uext4.deb.
	@test -x target/tools/bin/cargo-deb || \
	  cargo install --quiet cargo-deb --version 3.8.0 --locked --root target/tools
	@rm -rf target/package/root && mkdir -p target/package
	@sh packaging/stage.sh "$(BUILT)/release/uext4" target/package/root /usr /usr/sbin
	@PATH="$$PWD/target/tools/bin:$$PATH" cargo deb --quiet --package uext4-tools --no-build \
	  --no-strip --output target/package/uext4.deb

static: ## Build a static binary with musl: target/package/uext4-static.
	@rustup target add $(STATIC_TARGET) 2>/dev/null || \
	  { echo "static: needs rustup, to add the target $(STATIC_TARGET)"; exit 1; }
	@mkdir -p target/package
	cargo build --release --quiet --package uext4-tools --target $(STATIC_TARGET)
	@install -m 755 -s "$(BUILT)/$(STATIC_TARGET)/release/uext4" target/package/uext4-static

package-test: deps ## Install each kind of package in a clean Debian and use it there (root).
	@command -v debootstrap >/dev/null || apt-get install -y -qq debootstrap
	@sh packaging/test.sh
