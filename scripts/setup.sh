#!/usr/bin/env bash
# Installs what Unisono needs: packages of Debian or Ubuntu by apt-get, and oneDNN 3 and the Python peers by pip into a virtual
# environment outside the tree. Runs again in well under a second when all is there.
# Without root, CMake, Ninja and libraries that are headers alone go into UNISONO_DEPS_DIR-tools, and packages that are still missing
# are named, as Debian, Fedora and conda-forge have them (scripts/packages.txt). On other distributions, too.
#
# usage: scripts/setup.sh [build] [test] [bench] [networks] [python] [wheel] [docs] [train]     (default: build)
# UNISONO_DEPS_DIR: where the virtual environment goes (default: ~/.cache/unisono/deps/venv). What networks needs (PyTorch with
# all that its wheels pull in, 7 GB) goes into an environment of its own beside it, UNISONO_DEPS_DIR-networks. What the Python
# package and its tests need (PyTorch again, with libraries of networks, 5 GB: PyPI has no wheel without CUDA) goes into
# UNISONO_DEPS_DIR-python, the tools of scripts/wheel.sh into UNISONO_DEPS_DIR-wheel, those of the site (Sphinx, 60 MB) into
# UNISONO_DEPS_DIR-docs, what draws the scenes of make train-demo into UNISONO_DEPS_DIR-train, and the package onnx that the table of operators
# is made of, which is newer than the last one that ships the node tests, into UNISONO_DEPS_DIR-schemas.
# For test, CUTLASS's headers (6 MB), without the packages for Python that it names, go into UNISONO_DEPS_DIR-cutlass.
# For test, where no nvcc is found: NVIDIA's compiler and runtime from PyPI (100 MB to download), so that the device headers and
# the CUDA examples are compiled. The CUDA backend and the tests on the emulated GPU need neither.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
deps=${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}
want=("${@:-build}")
has_nvcc() { command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-}/bin/nvcc" ] || [ -x /usr/local/cuda/bin/nvcc ]; }

requirements=("$here/scripts/requirements-build.txt") schemas=() networks=() python=() cutlass=() wheel=() docs=() train=()
for part in "${want[@]}"; do
  case $part in
    build) ;;
    test)
      has_nvcc || requirements+=("$here/scripts/requirements-cuda.txt")
      requirements+=("$here/scripts/requirements-test.txt"); schemas=("$here/scripts/requirements-schemas.txt")
      cutlass=("$here/scripts/requirements-cutlass.txt") ;;
    bench) requirements+=("$here/scripts/requirements-bench.txt") ;;
    networks) networks=("$here/scripts/requirements-networks.txt") ;;
    python) python=("$here/scripts/requirements-python.txt") ;;
    wheel) wheel=("$here/scripts/requirements-wheel.txt") ;;
    docs) docs=("$here/scripts/requirements-docs.txt") ;;
    train) train=("$here/scripts/requirements-train.txt") ;;
    *) echo "setup.sh: unknown part '$part'; expected build, test, bench, networks, python, wheel, docs or train" >&2; exit 2 ;;
  esac
done

export PATH=$deps-tools/bin:$PATH CPATH=$deps-tools/include:${CONDA_PREFIX:+$CONDA_PREFIX/include:}${CPATH:-}
new_enough() { [ "$(printf '3.22\n%s\n' "$(cmake --version | sed -n 's/^cmake version //p')" | sort -V | head -1)" = 3.22 ]; }
installed() { [[ " $of_dpkg " == *" $1 "* ]]; }
look() { of_dpkg=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' 2>/dev/null | sed -n 's/ installed$//p' | xargs || true); }
look
# there HOW PACKAGE: whether it is there, from whatever package
there() {
  case $1 in
    cmake) command -v cmake >/dev/null && new_enough ;;
    *) installed "$2" || case $1 in
         import\ *) python3 -c "$1" 2>/dev/null ;;
         *.h | *.hpp) c++ -x c++ -E - <<< "#include <$1>" >/dev/null 2>&1 ;;
         *) command -v "$1" >/dev/null ;;
       esac ;;
  esac
}
# missing COLUMN: what is not there, as this column of scripts/packages.txt names it (3: Debian and Ubuntu, 4: Fedora, 5: conda-forge)
missing() {
  local row
  while IFS='|' read -ra row; do
    row=("${row[@]# }") row=("${row[@]% }")
    [[ " build ${want[*]} " != *" ${row[0]} "* ]] || there "${row[1]}" "${row[2]}" || echo "${row[$(($1 - 1))]}"
  done < <(grep -v '^#' "$here/scripts/packages.txt") | sort -u
}
# What only Debian's packages have apart from others
of_debian() {
  local packages=(ccache) p
  if [[ " ${want[*]} " = *" test "* ]]; then
    # libclang-rt is named after its clang
    # the browser in which pages of `unisono explain --html` are tested (61 MB; Ubuntu has it as a snap only, and goes without)
    if apt-cache show chromium-headless-shell >/dev/null 2>&1; then packages+=(chromium-headless-shell); fi
    packages+=(libomp-dev $(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p'))
  fi
  for p in "${packages[@]}"; do installed "$p" || echo "$p"; done
}
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
# Without root: CMake and Ninja from PyPI, and the libraries that are headers alone from Debian's packages
without_root() {
  local p unpacked
  mkdir -p "$deps-tools/bin"
  for p in cmake ninja; do
    if ! there $p none; then
      echo "setup: $p from PyPI into $deps-tools"
      [ -x "$deps-tools/venv/bin/pip" ] || python3 -m venv "$deps-tools/venv"
      "$deps-tools/venv/bin/pip" install -q --disable-pip-version-check $p
      ln -sf ../venv/bin/$p "$deps-tools/bin/$p"
      [ $p = ninja ] || ln -sf ../venv/bin/ctest "$deps-tools/bin/ctest"
    fi
  done
  command -v apt-get >/dev/null || return 0
  for p in $(missing 3 | grep -xE 'nlohmann-json3-dev|libcli11-dev|libxxhash-dev' || true); do
    echo "setup: headers of $p into $deps-tools"
    unpacked=$(mktemp -d)
    (cd "$unpacked" && apt-get download -qq "$p" && dpkg-deb -x ./*.deb . && cp -r usr/include usr/share "$deps-tools/")
    rm -rf "$unpacked"
  done
}

mapfile -t lacking < <(missing 3)
if command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
  # images of containers have no lists of packages, which of_debian asks
  compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null || as_root apt-get update -qq
  mapfile -t packages < <(printf '%s\n' "${lacking[@]}"; of_debian)
  if [ -n "${packages[*]}" ]; then
    echo "setup: installing" ${packages[*]}
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ${packages[*]} >/dev/null
    look
    mapfile -t lacking < <(missing 3)
  fi
fi
if [ ${#lacking[@]} -gt 0 ]; then
  without_root
  if [ -n "$(missing 3)" ]; then
    { echo "setup.sh: please install what is missing, then run again"
      echo "  Debian, Ubuntu (as root):  apt-get install $(missing 3 | xargs)"
      echo "  Fedora (as root):          dnf install $(missing 4 | xargs)"
      echo "  conda-forge:               conda install -c conda-forge $(missing 5 | xargs)"; } >&2
    exit 1
  fi
fi

# environment FOLDER [--no-deps] REQUIREMENTS…: a virtual environment that has at least these
environment() {
  local folder=$1 stamp=$1/.unisono-requirements wanted args=() r; shift
  if [ "$1" = --no-deps ]; then args=(--no-deps); shift; fi
  wanted=$(cat "$@" | sort -u)
  if [ -f "$stamp" ] && [ -z "$(comm -13 "$stamp" <(echo "$wanted"))" ]; then return; fi
  echo "setup: Python packages into $folder"
  mkdir -p "$(dirname "$folder")"
  # one set-up at a time on a machine
  exec 9>"$folder.lock"; flock 9
  [ -x "$folder/bin/python" ] || python3 -m venv "$folder"
  for r in "$@"; do args+=(-r "$r"); done
  "$folder/bin/pip" install -q --disable-pip-version-check "${args[@]}"
  { [ -f "$stamp" ] && cat "$stamp"; echo "$wanted"; } | sort -u > "$stamp.new" && mv "$stamp.new" "$stamp"
  exec 9>&-
}
environment "$deps" "${requirements[@]}"
[ ${#schemas[@]} = 0 ] || environment "$deps-schemas" "${schemas[@]}"
[ ${#cutlass[@]} = 0 ] || environment "$deps-cutlass" --no-deps "${cutlass[@]}"
[ ${#networks[@]} = 0 ] || environment "$deps-networks" "${networks[@]}"
[ ${#python[@]} = 0 ] || environment "$deps-python" "${python[@]}"
[ ${#wheel[@]} = 0 ] || environment "$deps-wheel" "${wheel[@]}"
[ ${#docs[@]} = 0 ] || environment "$deps-docs" "${docs[@]}"
[ ${#train[@]} = 0 ] || environment "$deps-train" "${train[@]}"
