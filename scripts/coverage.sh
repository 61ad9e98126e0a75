#!/bin/sh
# Line coverage of each crate by the tests of the named packages (default: all of the workspace).
# Instrumented builds go to target/llvm-cov-target; the table of files is target/coverage.json.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/target/tools/bin:$PATH"
# Counters are in mapped files (%c): a sandboxed server opens no file at its end, and one that a
# signal ends writes none. The processes of one program share four files (%4m).
export LLVM_PROFILE_FILE_NAME="uext4-%4m%c.profraw"
export RUSTFLAGS="${RUSTFLAGS:-} -C llvm-args=-runtime-counter-relocation"
packages="--workspace"
if [ $# -gt 0 ]; then
    packages=$(printf -- '--package %s ' "$@")
fi
cargo llvm-cov clean --workspace --quiet
case "${*:-uext4-fuse}" in
*uext4-fuse*)
    # Builds the programs of the tests, which say how they are called and fail.
    for program in mount exercise; do
        cargo llvm-cov run --no-report --quiet --package uext4-fuse --example "$program" \
            >/dev/null 2>&1 || test -x "target/llvm-cov-target/debug/examples/$program"
    done
    ;;
esac
# shellcheck disable=SC2086 # several words
cargo llvm-cov $packages --no-report --quiet
cargo llvm-cov report --json --summary-only --output-path target/coverage.json
python3 - target/coverage.json <<'PYTHON'
import collections, json, re, sys

lines = collections.defaultdict(lambda: [0, 0])
for file in json.load(open(sys.argv[1]))["data"][0]["files"]:
    crate = re.search(r"/(?:crates/)?(\w+)/src/", file["filename"])
    if crate and "/tests" not in file["filename"]:
        counted = file["summary"]["lines"]
        lines[crate[1]][0] += counted["covered"]
        lines[crate[1]][1] += counted["count"]
print("crate        lines  covered  percent")
for crate, (covered, count) in sorted(lines.items()):
    print(f"{crate:10} {count:7} {covered:8} {100 * covered / max(count, 1):8.1f}")
PYTHON
