#!/usr/bin/env bash
# Installs what Coda needs on Debian or Ubuntu: distribution packages by apt-get, and oneDNN 3 and the Python peers by
# pip into a virtual environment outside the tree. Runs again in well under a second when all is there.
#
# usage: scripts/setup.sh [build] [test] [bench]     (default: build)
# CODA_DEPS_DIR: where the virtual environment goes (default: ~/.cache/coda/deps/venv)
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
deps=${CODA_DEPS_DIR:-$HOME/.cache/coda/deps/venv}
want=("${@:-build}")

packages=(g++ cmake ninja-build ccache python3 python3-venv libfmt-dev nlohmann-json3-dev libcli11-dev
          libxxhash-dev libpng-dev libjpeg-dev libfreetype-dev libsleef-dev libprotobuf-dev protobuf-compiler pkg-config)
requirements=("$here/scripts/requirements-build.txt")
for part in "${want[@]}"; do
  case $part in
    build) ;;
    test) packages+=(libgtest-dev clang libomp-dev libclang-rt-14-dev clang-format clang-tidy); requirements+=("$here/scripts/requirements-test.txt") ;;
    bench) requirements+=("$here/scripts/requirements-bench.txt") ;;
    *) echo "setup.sh: unknown part '$part'; expected build, test or bench" >&2; exit 2 ;;
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

stamp=$deps/.coda-requirements
wanted=$(cat "${requirements[@]}" | sort -u)
if [ ! -f "$stamp" ] || [ -n "$(comm -13 "$stamp" <(echo "$wanted"))" ]; then
  echo "setup: Python packages into $deps"
  mkdir -p "$(dirname "$deps")"
  # one set-up at a time on a machine
  exec 9>"$deps.lock"; flock 9
  [ -x "$deps/bin/python" ] || python3 -m venv "$deps"
  args=(); for r in "${requirements[@]}"; do args+=(-r "$r"); done
  "$deps/bin/pip" install -q --disable-pip-version-check "${args[@]}"
  { [ -f "$stamp" ] && cat "$stamp"; echo "$wanted"; } | sort -u > "$stamp.new" && mv "$stamp.new" "$stamp"
fi
