#!/usr/bin/env bash
# Builds the consumer with Unisono as a subdirectory and runs it.
set -euo pipefail
cmake=$1 root=$2 source=$3 work=$4 cxx=$5 deps=$6 launcher=$7
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
"$cmake" -G Ninja -S "$source/add_subdirectory" -B "$work" -DUNISONO_SOURCE="$root" -DUNISONO_DEPS_DIR="$deps" -DUNISONO_WERROR=ON \
  -DUNISONO_JOIN=ON \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" >/dev/null
"$cmake" --build "$work" --target consumer
"$work/consumer"
