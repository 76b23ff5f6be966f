#!/usr/bin/env bash
# The CMake block of docs/cookbook.md against an installation, and the functions that the page says the target then has.
set -euo pipefail
cmake=$1 build=$2 source=$3 work=$4 cxx=$5 nvcc=$6
rm -rf "$work" && mkdir -p "$work/source"
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null
block=$(sed -n '/^```cmake$/,/^```$/{/^```/d;p}' "$source/docs/cookbook.md")
[ -n "$block" ]
# The target of the block's lines goes between them: find_package first
{
  echo 'cmake_minimum_required(VERSION 3.22)'
  echo 'project(cookbook LANGUAGES CXX)'
  echo 'add_executable(layers main.cpp)'
  echo "$block"
} > "$work/source/CMakeLists.txt"
# The text of the recipe's console block
sed -n "s/^\$ unisono emit '\([^']*\)' --gemm '256,512->1024' --name dense.*/\1/p" "$source/docs/cookbook.md" | tr ';' '\n' > "$work/source/dense.txt"
[ -s "$work/source/dense.txt" ]
cat > "$work/source/main.cpp" <<'END'
#include <cstdio>

#include "dense.h"

int main() {
  const int status = dense_run == nullptr ? 1 : 0;
  std::printf("%s\nworkspace: %zu\n", dense_text(status), static_cast<size_t>(dense_workspace_bytes()));
  return status;
}
END
"$cmake" -G Ninja -S "$work/source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" -DUNISONO_KERNELS_NVCC="$nvcc" >/dev/null
"$cmake" --build "$work/build"
env -u LD_LIBRARY_PATH "$work/build/layers"
