#!/usr/bin/env bash
# Builds the judge of random networks and runs it. usage: scripts/random_networks.sh BUILD [OPTIONS OF tests/random_networks/run.py …]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1; shift
mkdir -p "$build"
cmake --preset ci > "$build/ci-configure.log" 2>&1 || { cat "$build/ci-configure.log"; exit 1; }
cmake --build "$build/ci" -j "$(nproc)" --target network_judge
work=$build/random_networks
case " $* " in *" --gpu "*) work+=_gpu ;; esac
exec "${UNISONO_DEPS_DIR:-$HOME/.cache/unisono/deps/venv}/bin/python" tests/random_networks/run.py --judge "$build/ci/tests/random_networks/network_judge" --work "$work" "$@"
