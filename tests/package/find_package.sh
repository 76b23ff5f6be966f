#!/usr/bin/env bash
# Installs the build into a fresh prefix, moves the prefix, builds the consumer against it and runs it.
set -euo pipefail
cmake=$1 build=$2 source=$3 work=$4 cxx=$5
rm -rf "$work" && mkdir -p "$work"
"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"  # an installation must not depend on where it was made
"$cmake" -G Ninja -S "$source/find_package" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
"$cmake" --build "$work/consumer"
env -u LD_LIBRARY_PATH "$work/consumer/consumer"
if [ -x "$work/prefix/bin/coda" ]; then env -u LD_LIBRARY_PATH "$work/prefix/bin/coda" --version; fi
