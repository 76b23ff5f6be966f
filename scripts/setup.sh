#!/usr/bin/env bash
# Installs what Unisono needs on Debian or Ubuntu: distribution packages by apt-get, and oneDNN 3 and the Python peers by
# pip into a virtual environment outside the tree. Runs again in well under a second when all is there.
#
# usage: scripts/setup.sh [build] [test] [bench] [networks] [python] [wheel]     (default: build)
# UNISONO_DEPS_DIR: where the virtual environment goes (default: ~/.cache/unisono/deps/venv). What networks needs (PyTorch with
# all that its wheels pull in, 7 GB) goes into an environment of its own beside it, UNISONO_DEPS_DIR-networks. What the Python
# package and its tests need (PyTorch again, with libraries of networks, 5 GB: PyPI has no wheel without CUDA) goes into
# UNISONO_DEPS_DIR-python, the tools of scripts/wheel.sh into UNISONO_DEPS_DIR-wheel, and the package onnx that the table of operators
# is made of, which is newer than the last one that ships the node tests, into UNISONO_DEPS_DIR-schemas.
# For test, CUTLASS's headers (6 MB), without the packages for Python that it names, go into UNISONO_DEPS_DIR-cutlass.
# For test, where no nvcc is found: NVIDIA's compiler and runtime from PyPI (100 MB to download), so that the device headers and
# the CUDA examples are compiled. The CUDA backend and the tests on the emulated GPU need neither.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
deps=${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}
want=("${@:-build}")
has_nvcc() { command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-}/bin/nvcc" ] || [ -x /usr/local/cuda/bin/nvcc ]; }

packages=(g++ cmake ninja-build ccache python3 python3-venv libfmt-dev nlohmann-json3-dev libcli11-dev
          libxxhash-dev libpng-dev libjpeg-dev libzip-dev libsqlite3-dev libfreetype-dev libsleef-dev libprotobuf-dev protobuf-compiler pkg-config)
requirements=("$here/scripts/requirements-build.txt") schemas=() networks=() python=() cutlass=() wheel=()
for part in "${want[@]}"; do
  case $part in
    build) ;;
    test)
      has_nvcc || requirements+=("$here/scripts/requirements-cuda.txt")
      packages+=(libgtest-dev libboost-context-dev clang libomp-dev libclang-rt-14-dev clang-format clang-tidy)
      requirements+=("$here/scripts/requirements-test.txt"); schemas=("$here/scripts/requirements-schemas.txt")
      cutlass=("$here/scripts/requirements-cutlass.txt") ;;
    bench) requirements+=("$here/scripts/requirements-bench.txt") ;;
    networks) networks=("$here/scripts/requirements-networks.txt") ;;
    python) packages+=(python3-dev); python=("$here/scripts/requirements-python.txt") ;;
    wheel) wheel=("$here/scripts/requirements-wheel.txt") ;;
    *) echo "setup.sh: unknown part '$part'; expected build, test, bench, networks, python or wheel" >&2; exit 2 ;;
  esac
done

missing=()
for p in "${packages[@]}"; do
  # libclang-rt is named after its clang: take the one that this distribution's clang has
  if [ "$p" = libclang-rt-14-dev ] && ! apt-cache show "$p" >/dev/null 2>&1; then
    p=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p')
    [ -n "$p" ] || continue
  fi
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "setup.sh: this is no Debian or Ubuntu machine. Install the equivalents of: ${missing[*]}" >&2; exit 1
  fi
  sudo=
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo=sudo; else
      echo "setup.sh: please install as root, then run again:  apt-get install ${missing[*]}" >&2; exit 1
    fi
  fi
  echo "setup: installing ${missing[*]}"
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
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
