#!/usr/bin/env bash
# Makes the wheel unisono-kernels of a pack of compiled kernels (unisono pack, make pack): it lies beside the package, which then compiles
# none of them. The kernels are those of this revision's package; another one ignores them and compiles its own.
# usage: scripts/kernels_wheel.sh PACK [FOLDER]      (default: build/wheels)
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
pack=$(realpath "$1") out=$(realpath -m "${2:-$here/build/wheels}")
tools=${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-wheel/bin
"$here/scripts/setup.sh" wheel
version=$(sed -n 's/^project(unisono VERSION \([0-9.]*\) .*/\1/p' "$here/CMakeLists.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wheel=$work/unisono_kernels-$version information=$work/unisono_kernels-$version/unisono_kernels-$version.dist-info
mkdir -p "$information" "$wheel/unisono/share/unisono" "$out"
cp -r "$pack" "$wheel/unisono/share/unisono/kernels"
printf 'Wheel-Version: 1.0\nGenerator: unisono\nRoot-Is-Purelib: false\nTag: py3-none-any\n' > "$information/WHEEL"
printf 'Metadata-Version: 2.1\nName: unisono-kernels\nVersion: %s\nSummary: Compiled kernels of Unisono for the standard shapes\nRequires-Dist: unisono==%s\n' \
  "$version" "$version" > "$information/METADATA"
"$tools/wheel" pack -d "$out" "$wheel"
