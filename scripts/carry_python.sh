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
nanobind=$("$with_nanobind" -c 'import nanobind, os; print(os.path.dirname(nanobind.__file__))')
read -r include suffix < <("$python" -c 'import sysconfig; print(sysconfig.get_path("include"), sysconfig.get_config_var("EXT_SUFFIX"))')
[ -f "$include/Python.h" ] || { echo "carry_python.sh: $python has no headers: $include/Python.h is not there" >&2; exit 2; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/pyproject.toml")

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
folder=$temporary/carried objects=$temporary/objects linked=()
mkdir -p "$folder/unisono/lib" "$objects" "$(dirname "$archive")"
flags=(-std=gnu++20 -O2 -DNDEBUG -fPIC -fvisibility=hidden -fno-strict-aliasing -ffunction-sections -fdata-sections -DUNISONO_VERSION="\"$version\""
       -I"$include" -I"$nanobind/include" -I"$nanobind/ext/robin_map/include" -I"$here/include")
for source in "$nanobind/src/nb_combined.cpp" "$here"/python/bindings/*.cpp; do
  object=$objects/$(basename "$source" .cpp)$suffix.o
  $(command -v ccache || true) c++ "${flags[@]}" -c "$source" -o "$object"
  linked+=("$object")
done
cp -L "$build/src/libunisono.so" "$folder/unisono/lib/libunisono.so.0"
strip "$folder/unisono/lib/libunisono.so.0"
ldd "$build/src/libunisono.so" | awk '$2 == "=>" && $3 !~ /\/(libc|libm|libpthread|libdl|librt)\.so/ {print $3}' |
  xargs -I{} cp -L {} "$folder/unisono/lib/"
c++ -shared -Wl,--gc-sections -Wl,-rpath,'$ORIGIN/lib' -s -o "$folder/unisono/_native$suffix" "${linked[@]}" "$folder/unisono/lib/libunisono.so.0"
# PyTorch's operators: one library for every Python
operators=$build/python/unisono/_operators.so
if [ -f "$operators" ]; then strip -o "$folder/unisono/_operators.so" "$operators"
else echo "carry_python.sh: $operators is not there: PyTorch's operators will be those in Python" >&2; fi
# the tests' runner, which has no compiled part
(cd "$nanobind/.." && cp -r pytest _pytest py.py pluggy iniconfig packaging pygments "$folder")
(cd "$here/python/unisono" && find . -name '*.py' -print0 | xargs -0 cp --parents -t "$folder/unisono")
XZ_OPT=-1 tar -C "$temporary" -cJf "$archive" carried
ls -l "$archive"
