#!/usr/bin/env bash
# Makes the wheels of the Python package for Linux in FOLDER: cp312-abi3 for Python 3.12 and later, and one for each older PYTHON, of which
# only the extension differs. All libraries that a bare system may lack are in them; their tag is the lowest that this machine reaches.
# usage: scripts/wheel.sh [FOLDER [PYTHON…]]      (default: build/wheels python3.12 python3.11 python3.10; the first is 3.12 or later)
# Each PYTHON needs its headers. At the end tests/package/wheel.py tries each wheel in an empty environment, in a root folder without a
# compiler and libgomp, and beside PyTorch where scripts/setup.sh python has installed it for one of these Pythons. UNISONO_TRY_TORCH
# may name more folders of site-packages that have one, with colons between.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${1:-$here/build/wheels}"); shift || true
pythons=("$@")
[ ${#pythons[@]} -gt 0 ] || pythons=(python3.12 python3.11 python3.10)
tools=${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-wheel/bin
"$here/scripts/setup.sh" build wheel
for python in "${pythons[@]}"; do
  command -v "$python" >/dev/null || { echo "wheel.sh: there is no $python; name the Pythons to build for" >&2; exit 2; }
done
"${pythons[0]}" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || {
  echo "wheel.sh: ${pythons[0]} is older than 3.12, from which on one extension serves all versions" >&2; exit 2; }

onednn=${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-onednn
"$here/scripts/onednn.sh" "$onednn"
# The objects of a build in this folder by preset ci serve, and the other way round
export CCACHE_BASEDIR=$here CCACHE_NOHASHDIR=1 CXX=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=$tools:$PATH  # auditwheel calls patchelf
unpack() { mkdir -p "$2"; wheel unpack -d "$2" "$1" >/dev/null; }

# third_party FOLDER: the licences of the libraries in an unpacked wheel, each under its library's name, and of what is compiled in
third_party() {
  local into library name package
  into=$(echo "$1"/*.dist-info)/licenses/third_party
  mkdir -p "$into"
  for library in "$1"/unisono.libs/*.so* "$1"/unisono/lib/libgomp.so.1; do
    name=$(basename "$library" | sed -E 's/-[0-9a-f]{8}[.]so/.so/')  # auditwheel adds a hash
    package=$(dpkg -S "*/$(basename "$(realpath "$(c++ -print-file-name="$name")")")" | sed -n '1s/:.*//p')
    cp "/usr/share/doc/$package/copyright" "$into/${name%%.so*}.txt"
  done
  for package in libcli11-dev libsleef-dev libxxhash-dev nlohmann-json3-dev; do
    cp "/usr/share/doc/$package/copyright" "$into/$package.txt"
  done
  cat $(find "$onednn/share/doc" -name LICENSE -o -name THIRD-PARTY-PROGRAMS | sort) > "$into/libdnnl.txt"
  cp "$("$tools/python" -c 'import nanobind; print(nanobind.__path__[0])')"-*.dist-info/licenses/LICENSE "$into/nanobind.txt"
}

"${pythons[0]}" -m pip wheel --no-deps -q -C cmake.define.UNISONO_WERROR=ON -C cmake.define.UNISONO_DNNL_DIR="$onednn" -w "$work/raw" "$here"
unpack "$work"/raw/*.whl "$work/raw"
package=$(echo "$work"/raw/unisono-*/unisono)
# libgomp comes along under its own name, as PyTorch's wheels have it: whichever is loaded first serves both
cp "$(realpath "$(c++ -print-file-name=libgomp.so.1)")" "$package/lib/libgomp.so.1"
patchelf --set-rpath '$ORIGIN' "$package/lib/libdnnl.so.3"
mkdir -p "$work/packed" "$work/repaired"
wheel pack -d "$work/packed" "$(dirname "$package")" >/dev/null
auditwheel repair -w "$work/repaired" "$work"/packed/*.whl

unpack "$work"/repaired/*.whl "$work/unpacked"
package=$(echo "$work"/unpacked/unisono-*/unisono)
third_party "$(dirname "$package")"
mkdir -p "$out"
wheel pack -d "$out" "$(dirname "$package")" >/dev/null
for python in "${pythons[@]:1}"; do
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  rm -f "$package"/_native.*.so
  NANOBIND_PYTHON=$tools/python "$here/scripts/extension.sh" "$python" "$package/lib/libunisono.so.0" "$package"
  mkdir -p "$work/$tag"
  wheel pack -d "$work/$tag" "$(dirname "$package")" >/dev/null
  wheel tags --remove --python-tag "$tag" --abi-tag "$tag" "$work/$tag"/*.whl >/dev/null
  cp "$work/$tag"/*.whl "$out"
done
ls -l "$out"
sites=("${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}"-python/lib/python*/site-packages)
IFS=: read -ra more <<< "${UNISONO_TRY_TORCH:-}"
for python in "${pythons[@]}"; do
  of=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
  tag=$("$python" -c 'import sys; print("cp%d%d" % min(sys.version_info[:2], (3, 12)))') beside=()  # later ones have the ABI of 3.12
  for site in "${sites[@]}" "${more[@]}"; do
    [ "$(basename "$(dirname "$site")")" != "$of" ] || [ ! -d "$site/torch" ] || beside+=(--torch "$site")
  done
  "$python" "$here/tests/package/wheel.py" "$out"/unisono-*-"$tag"-*.whl "${beside[@]}"
done
