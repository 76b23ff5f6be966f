#!/usr/bin/env bash
# Builds a library with kernels chosen at build time (unisono_add_kernels) against an installation, runs it where no GPU is
# needed, and changes an epilogue's text.
set -euo pipefail
cmake=$1 build=$2 source=$3 work=$4 cxx=$5 nvcc=$6
rm -rf "$work" && mkdir -p "$work"
trap 'rm -rf "$work"' EXIT
cp -r "$source/kernels" "$work/source"
mkdir "$work/source/two words" && cp "$source/kernels/dense.txt" "$work/source/two words/"
"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null
configure() {
  "$cmake" -G Ninja -S "$work/source" -B "$work/a build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" \
    -DUNISONO_KERNELS_NVCC="$nvcc" "$@"
}

# The headers of CUTLASS, where scripts/setup.sh has installed them
cutlass=${UNISONO_CUTLASS:-}
for folder in "${XDG_CACHE_HOME:-$HOME/.cache}"/unisono/deps/venv-cutlass/lib/python3*/site-packages/cutlass_library; do
  [ -n "$cutlass" ] || [ ! -f "$folder/source/include/cutlass/version.h" ] || cutlass=$folder
done
configure -DCUTLASS="$cutlass" >/dev/null
[ -z "$cutlass" ] || grep -q "/include/../tools/util/include" "$work/a build/build.ninja"
"$cmake" --build "$work/a build"
env -u LD_LIBRARY_PATH "$work/a build/consumer" | tee "$work/said"
grep -q "^block: " "$work/said"
[ -z "$cutlass" ] || grep -q "^tree: \|^single: -" "$work/said"
if ldd "$work/a build/consumer" | grep unisono; then echo "the program needs Unisono"; exit 1; fi

# Nothing to do, then one kernel anew
"$cmake" --build "$work/a build" | grep -q "no work to do"
sed -i 's/silu/relu/' "$work/source/block.txt"
"$cmake" --build "$work/a build" | tee "$work/log"
grep -q "Compiling the kernel block" "$work/log"
if grep "the kernel dense" "$work/log"; then echo "a text that did not change was read again"; exit 1; fi

# What is said where something is missing
refused() {
  local words=$1
  shift
  if configure "$@" >"$work/log" 2>&1; then echo "configured, and must not: $*"; exit 1; fi
  tr -s ' \n' ' ' <"$work/log" | grep -qF -- "$words" || { cat "$work/log"; echo "did not say: $words"; exit 1; }
}
refused "is not nvcc of CUDA 12.3 or later" -DUNISONO_KERNELS_NVCC=/bin/true -DCUTLASS=
refused "kernels are compiled by nvcc of CUDA 12.3 or later, and none was found" -DUNISONO_KERNELS_NVCC=UNISONO_KERNELS_NVCC-NOTFOUND \
  -DCMAKE_IGNORE_PATH="$(dirname "$nvcc");$(dirname "$(realpath "$nvcc")");/usr/local/cuda/bin;/usr/local/bin;/usr/bin;/bin" -DCUTLASS=
refused "the target has a kernel NAME other already" -DUNISONO_KERNELS_NVCC="$nvcc" -DCMAKE_IGNORE_PATH= -DCUTLASS= -DTWICE=ON
refused "must be a library or program that is compiled here" -DUNISONO_KERNELS_NVCC="$nvcc" -DCUTLASS= -DTWICE=OFF -DALIAS=ON
refused "needs the headers of CUTLASS 4" -DUNISONO_KERNELS_NVCC="$nvcc" -DCMAKE_IGNORE_PATH= -DCUTLASS=/nowhere -DALIAS=OFF
