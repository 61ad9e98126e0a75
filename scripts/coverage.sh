#!/bin/sh
# Line coverage of each crate by the tests of the named packages (default: all of the workspace).
# Instrumented builds go to target/llvm-cov-target; the table of files is target/coverage.json.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/target/tools/bin:$PATH"
packages="--workspace"
if [ $# -gt 0 ]; then
    packages=$(printf -- '--package %s ' "$@")
fi
# shellcheck disable=SC2086 # several words
cargo llvm-cov $packages --quiet --json --summary-only --output-path target/coverage.json
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
