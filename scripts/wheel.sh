#!/usr/bin/env bash
# Makes the wheels of the Python package for Linux in FOLDER: cp312-abi3 for Python 3.12 and later, and one for each older PYTHON, of which
# only the extension differs. All libraries that a bare system may lack are in them; their tag is the lowest that this machine reaches.
# usage: scripts/wheel.sh [FOLDER [PYTHON…]]      (default: build/wheels python3.12 python3.11 python3.10; the first is 3.12 or later)
# Each PYTHON needs its headers. At the end tests/package/wheel.py tries each wheel in an empty environment, and beside PyTorch where
# scripts/setup.sh python has installed it for one of these Pythons.
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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=$tools:$PATH  # auditwheel calls patchelf
unpack() { mkdir -p "$2"; wheel unpack -d "$2" "$1" >/dev/null; }

"${pythons[0]}" -m pip wheel --no-deps -q -w "$work/raw" "$here"
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
mkdir -p "$out"
cp "$work"/repaired/*.whl "$out"
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
torch=${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-python
for python in "${pythons[@]}"; do
  tag=$("$python" -c 'import sys; print("cp%d%d" % min(sys.version_info[:2], (3, 12)))') beside=()  # later ones have the ABI of 3.12
  for site in "$torch"/lib/python*/site-packages; do
    [ "cp$(basename "$(dirname "$site")" | tr -dc 0-9)" != "$tag" ] || [ ! -d "$site/torch" ] || beside=(--torch "$site")
  done
  echo "$tag ${beside[*]}"
  python3 "$here/tests/package/wheel.py" "$out"/unisono-*-"$tag"-*.whl --python "$python" "${beside[@]}"
done
