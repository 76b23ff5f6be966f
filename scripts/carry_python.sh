#!/usr/bin/env bash
# The Python package for another Python and another machine: the extension compiled for PYTHON, of which only the headers and the name
# are used, beside the library and the shared libraries that it needs. No package is installed, here or there.
# usage: scripts/carry_python.sh PYTHON BUILD ARCHIVE.tar.xz      (BUILD has src/libunisono.so)
# there: tar xf ARCHIVE.tar.xz && LD_LIBRARY_PATH=$PWD/carried/unisono/lib PYTHONPATH=$PWD/carried python3 …
# NANOBIND_PYTHON may name a Python that has nanobind; scripts/setup.sh python makes the one that is the default.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
python=$1 build=$(realpath "$2") archive=$(realpath -m "$3")
with_nanobind=${NANOBIND_PYTHON:-${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-python/bin/python}

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
folder=$temporary/carried
mkdir -p "$folder/unisono/lib" "$(dirname "$archive")"
cp -L "$build/src/libunisono.so" "$folder/unisono/lib/libunisono.so.0"
strip "$folder/unisono/lib/libunisono.so.0"
ldd "$build/src/libunisono.so" | awk '$2 == "=>" && $3 !~ /\/(libc|libm|libpthread|libdl|librt)\.so/ {print $3}' |
  xargs -I{} cp -L {} "$folder/unisono/lib/"
pages=$build/python/unisono/lib/libunisono_explore.so
[ ! -f "$pages" ] || strip -o "$folder/unisono/lib/libunisono_explore.so" "$pages"
"$here/scripts/extension.sh" "$python" "$folder/unisono/lib/libunisono.so.0" "$folder/unisono"
# PyTorch's operators: one library for every Python
strip -o "$folder/unisono/_operators.so" "$build/python/unisono/_operators.so"
# the tests' runner, which has no compiled part
(cd "$("$with_nanobind" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" && cp -r pytest _pytest py.py pluggy iniconfig packaging pygments "$folder")
(cd "$here/python/unisono" && find . -name '*.py' -print0 | xargs -0 cp --parents -t "$folder/unisono")
XZ_OPT=-1 tar -C "$temporary" -cJf "$archive" carried
ls -l "$archive"
