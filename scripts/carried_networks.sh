#!/usr/bin/env bash
# make networks-gpu for a machine that reaches no network: the packages that it lacks come as wheels, the command as scripts/carry.sh packed it.
# Rows are added to OUT/networks-gpu.json, which starts as bench/results/networks-gpu.json: a later call goes on with what this one left.
# usage: scripts/carried_networks.sh WHEELS UNISONO.tar.xz OUT COMMIT [options of python -m networks.gpu]
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
wheels=$1 archive=$2 out=$3 commit=$4
shift 4
place=${TMPDIR:-/tmp}/carried-networks
mkdir -p "$place" "$out"
[ -d "$place/site" ] || python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target "$place/site" "$wheels"/*.whl
tar -C "$place" -xf "$archive"
# the command alone sees the libraries that came with it
printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$place/carried" "$place/carried/unisono" >"$place/unisono"
chmod +x "$place/unisono"
[ -f "$out/networks-gpu.json" ] || cp "$here/bench/results/networks-gpu.json" "$out/"
export PYTHONPATH=$place/site:$here/scripts PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2 PYTHONDONTWRITEBYTECODE=1
python3 -m networks.gpu "$place/unisono" "$place/networks" --json "$out/networks-gpu.json" --commit "$commit" "$@" | tee "$out/networks.log"
