#!/usr/bin/env bash
# Builds a newer oneDNN than PyPI has (3.7.3; setup.sh installs 3.2) once into FOLDER, for CPUs, with the primitives that Unisono
# uses: from Debian's source package, which any distribution can fetch, and the patches of 3.7.3 in it, two of which mend
# matmul. A build with UNISONO_DNNL_DIR=FOLDER uses it; scripts/wheel.sh and make bench do.
# usage: scripts/onednn.sh [FOLDER [JOBS]]      (default: UNISONO_DEPS_DIR-onednn, all cores; half an hour of two, once)
set -euo pipefail
folder=$(realpath -m "${1:-${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-onednn}") jobs=${2:-$(nproc)}
version=3.7.3 pool=https://deb.debian.org/debian/pool/main/o/onednn
[ "$(cat "$folder/.unisono-onednn" 2>/dev/null)" != $version ] || exit 0
tools=${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-tools/bin
export PATH=$tools:$PATH
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"; flock 9  # one build at a time on a machine
[ "$(cat "$folder/.unisono-onednn" 2>/dev/null)" != $version ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# fetched FILE SHA256
fetched() {
  python3 - "$pool/$1" "$work/$1" <<'P' || { echo "onednn.sh: $pool/$1 cannot be fetched; setup.sh build installs oneDNN 3.2" >&2; exit 1; }
import sys, urllib.request
urllib.request.urlretrieve(sys.argv[1], sys.argv[2])
P
  echo "$2  $work/$1" | sha256sum -c --quiet || { echo "onednn.sh: $pool/$1 is not the file that was expected" >&2; exit 1; }
}
echo "onednn: $version from Debian's source package into $folder"
fetched onednn_3.7.2+ds.orig.tar.xz 0cc51ca26c1af6a2bb1e71e378e7046f3ceb3e71791ee9d4e246d50f904a6ea6
fetched onednn_3.7.2+ds-2.debian.tar.xz db6b5144773b4f5b152a0138cba74af39124d59285975db7f2c220e992dcd2d4
tar -xf "$work"/*.orig.tar.xz -C "$work" && tar -xf "$work"/*.debian.tar.xz -C "$work"
source=$(echo "$work"/oneDNN-*)
patch -s -p1 -d "$source" < "$work/debian/patches/upstream-$version.patch"
# With a compiler cache a build that was interrupted goes on where it was
launcher=$(command -v ccache || true)
export CMAKE_C_COMPILER_LAUNCHER=$launcher CMAKE_CXX_COMPILER_LAUNCHER=$launcher CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
# The list of primitives knows no name for group normalisation, which the benchmark's peer takes
cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS=-g0 -DCMAKE_INSTALL_PREFIX="$folder" \
  -DCMAKE_INSTALL_LIBDIR=lib -DONEDNN_CPU_RUNTIME=OMP -DONEDNN_GPU_RUNTIME=NONE -DONEDNN_ARCH_OPT_FLAGS=-msse4.1 \
  -DONEDNN_BUILD_DOC=OFF -DONEDNN_BUILD_EXAMPLES=OFF -DONEDNN_BUILD_TESTS=OFF -DONEDNN_BUILD_GRAPH=OFF -DONEDNN_EXPERIMENTAL_SPARSE=ON \
  '-DONEDNN_ENABLE_PRIMITIVE=BINARY;CONCAT;CONVOLUTION;DECONVOLUTION;ELTWISE;INNER_PRODUCT;LAYER_NORMALIZATION;MATMUL;POOLING;REORDER;RESAMPLING' \
  -DBUILD_GROUP_NORMALIZATION=ON > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
cmake --build "$work/build" -j "$jobs"
rm -rf "$folder"
cmake --install "$work/build" --strip >/dev/null
echo $version > "$folder/.unisono-onednn"
