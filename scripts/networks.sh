#!/usr/bin/env bash
# Exports networks of others into FOLDER, unless they are there, and judges what CODA computes for them.
# usage: scripts/networks.sh CODA FOLDER [options of python -m networks]     (make networks sets everything up first)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
coda=$1 folder=$2
shift 2
python=${NETWORKS_PYTHON:-${CODA_DEPS_DIR:-$HOME/.cache/coda/deps/venv}-networks/bin/python}
PYTHONPATH=$here exec "$python" -m networks "$coda" "$folder" "$@"
