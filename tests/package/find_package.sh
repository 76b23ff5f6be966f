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
for file in README.md docs/command.md examples/onnx_model.cpp; do
  [ -f "$work/prefix/share/doc/unisono/$file" ] || { echo "$file is not installed"; exit 1; }
done
[ -x "$work/prefix/bin/unisono" ] || exit 0
env -u LD_LIBRARY_PATH "$work/prefix/bin/unisono" --version

# Packs are looked for where an installation keeps them, and not beside a program that lies anywhere else
packs() { env -u LD_LIBRARY_PATH -u UNISONO_PACKS "$1" doctor | sed -n '/^cache/,/^backends/p' | grep -A1 '^  pack ' || true; }
pack=$work/prefix/share/unisono/kernels
mkdir -p "$pack" "$work/prefix/elsewhere"
cp "$work/prefix/bin/unisono" "$work/prefix/elsewhere/unisono"
packs "$work/prefix/bin/unisono" | grep -F "$pack"
if packs "$work/prefix/elsewhere/unisono" | grep .; then echo "a program outside of bin/ found a pack"; exit 1; fi
chmod 777 "$pack"
packs "$work/prefix/bin/unisono" | grep -F "NOT USED"
