#!/bin/sh
# Prints what tests were left out, by what they need: skipped.sh FILE, a line `NEEDS<tab>TEST` each.
set -eu
[ -s "$1" ] || { echo "No test was left out."; exit 0; }
echo "Left out here:"
echo "tests  because they need"
sort -u "$1" | cut -f1 | sort | uniq -c | awk '{ n = $1; $1 = ""; printf "%5d %s\n", n, $0 }'
echo "Their names are in $1."
