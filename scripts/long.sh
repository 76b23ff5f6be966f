#!/usr/bin/env bash
# The long runs: 200,000 random graphs through passes, reference and CPU backend, 200 kill storms of the kernel cache, 600
# runs with little memory, every fault of a cycle on purpose, tests again and again with all cores loaded, and ten minutes of
# each fuzzer.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
cmake --preset ci > build/ci-configure.log && cmake --build build/ci -j "$(nproc)"
graphs=$(find build/ci -name random_graphs -type f -perm -u+x)
"$graphs" --count "${COUNT:-200000}" --seed "${SEED:-1}" --backend cpu
storm=$(find build/ci -name jit_storm -type f -perm -u+x)
"$storm" --rounds "${ROUNDS:-200}" --seed "${SEED:-1}"
"$storm" --rounds "${ROUNDS:-200}" --seed "${SEED:-1}" --damage
UNISONO_MEMORY_RUNS=600 python3 tests/cli/test_memory.py "$(find "$PWD/build/ci" -name unisono -type f -perm -u+x)" "$PWD"
UNISONO_FAULTS=all "$(find build/ci -name test_faults -type f -perm -u+x)"
scripts/repeat_tests.sh build/ci
cmake --preset fuzz > build/fuzz-configure.log && cmake --build build/fuzz -j "$(nproc)" --target fuzzers
scripts/fuzz.sh build/fuzz "${FUZZ_SECONDS:-600}" "$(nproc)"
