#!/usr/bin/env bash
# Each file must fail to compile, and must compile with -DCONTROL, so that it fails for the reason it names.
set -euo pipefail
cxx=$1 include=$2 cases=$3 failed=0 count=0
for file in "$cases"/*.cpp; do
  count=$((count + 1))
  if ! "$cxx" -std=c++20 -I "$include" -fsyntax-only -DCONTROL "$file"; then echo "$file: does not compile even with -DCONTROL"; failed=1; fi
  if "$cxx" -std=c++20 -I "$include" -fsyntax-only "$file" 2>/dev/null; then echo "$file: compiles, and must not"; failed=1; fi
done
echo "$count cases"
[ "$count" -gt 0 ] && exit $failed
