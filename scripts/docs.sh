#!/usr/bin/env bash
# Makes the site of docs/ in build/docs/html: pages, C++ reference from the headers (Doxygen, Breathe), Python reference from
# docstrings. usage: scripts/docs.sh [JOBS]   (make docs sets everything up first)
# A warning, such as a broken link, is an error, and so is a page that would fetch something.
# UNISONO_DOCS_PACKAGE: a folder that has the built Python package, instead of building it.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}-docs/bin/python
package=${UNISONO_DOCS_PACKAGE:-}
if [ -z "$package" ]; then
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
  mkdir -p build/docs-package
  cmake --preset ci -B build/docs-package -DUNISONO_TESTS=OFF -DUNISONO_BENCH=OFF -DUNISONO_EXAMPLES=OFF -DUNISONO_TOOLS=OFF \
    -DUNISONO_PYTHON=ON -DPython_EXECUTABLE="$python" > build/docs-package/configure.log 2>&1 || { cat build/docs-package/configure.log; exit 1; }
  cmake --build build/docs-package -j "${1:-$(nproc)}" --target unisono_python
  package=$PWD/build/docs-package/python
fi
rm -rf build/docs && mkdir -p build/docs/headers
# Breathe knows files by their names alone, so each name must be unique. The comment at the head of a header describes the file,
# which Doxygen would take for the namespace's.
(cd include/unisono && find . -name '*.hpp' | while read -r header; do
  name=${header#./}
  sed '2s,^///,/// \\file\n///,' "$header" > "../../build/docs/headers/${name//\//_}"
done)
doxygen docs/site/Doxyfile
PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 "$python" -m sphinx -q -W --keep-going -b html -c docs/site -d build/docs/doctrees docs build/docs/html
PYTHONDONTWRITEBYTECODE=1 "$python" docs/site/tables.py build/docs/html
"$python" docs/site/check.py build/docs/html
echo "build/docs/html/index.html"
