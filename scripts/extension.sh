#!/usr/bin/env bash
# Compiles the extension of the Python package for another Python, of which it needs the headers only.
# usage: scripts/extension.sh PYTHON LIBRARY FOLDER      (writes FOLDER/_native.SUFFIX; LIBRARY: a libunisono.so to link with; libunisono_explore.so, if it lies there, too)
# NANOBIND_PYTHON may name a Python that has nanobind; scripts/setup.sh python makes the one that is the default.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
python=$1 library=$2 folder=$3
with_nanobind=${NANOBIND_PYTHON:-${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-python/bin/python}
nanobind=$("$with_nanobind" -c 'import nanobind, os; print(os.path.dirname(nanobind.__file__))')
read -r include suffix < <("$python" -c 'import sysconfig; print(sysconfig.get_path("include"), sysconfig.get_config_var("EXT_SUFFIX"))')
[ -f "$include/Python.h" ] || { echo "extension.sh: $python has no headers: $include/Python.h is not there" >&2; exit 2; }
version=$(sed -n 's/^project(unisono VERSION \([0-9.]*\) .*/\1/p' "$here/CMakeLists.txt")
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
flags=(-std=gnu++20 -O2 -DNDEBUG -fPIC -fvisibility=hidden -fno-strict-aliasing -ffunction-sections -fdata-sections -DUNISONO_VERSION="\"$version\""
       -I"$include" -I"$nanobind/include" -I"$nanobind/ext/robin_map/include" -I"$here/include" -I"$here/src")
pages=()
if [ -f "$(dirname "$library")/libunisono_explore.so" ]; then
  pages=("$(dirname "$library")/libunisono_explore.so")
  flags+=(-DUNISONO_EXPLORE -I"$here/tools")
fi
compile() { $(command -v ccache || true) c++ "${flags[@]}" -c "$1" -o "$objects/$(basename "$1" .cpp)$suffix.o"; }
for source in "$nanobind/src/nb_combined.cpp" "$here"/python/bindings/*.cpp; do compile "$source"; done
c++ -shared -Wl,--gc-sections -Wl,-rpath,'$ORIGIN/lib' -s -o "$folder/_native$suffix" "$objects"/*.o "$library" "${pages[@]}"
