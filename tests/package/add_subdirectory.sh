#!/usr/bin/env bash
# Builds the consumer with Unisono as a subdirectory and runs it.
set -euo pipefail
cmake=$1 root=$2 source=$3 work=$4 cxx=$5 deps=$6 launcher=$7
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
# The same flags as the main build, and a folder as deep as its own: the compiler cache that served it, by paths relative
# to the folder where the compiler runs, serves this one too.
"$cmake" -G Ninja -S "$source/add_subdirectory" -B "$work" -DUNISONO_SOURCE="$root" -DUNISONO_DEPS_DIR="$deps" -DUNISONO_WERROR=ON \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" >/dev/null
"$cmake" --build "$work" --target consumer
"$work/consumer"
