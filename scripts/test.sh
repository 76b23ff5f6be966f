#!/usr/bin/env bash
# All tests that need no GPU. usage: scripts/test.sh JOBS FUZZ_SECONDS   (make test sets everything up first)
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)} fuzz_seconds=${2:-30}
started=$SECONDS
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # objects of one clone serve another
step() { printf '\n== %s (%d s so far)\n' "$*" $((SECONDS - started)); }
configure() { cmake --preset "$1" > "build/$1-configure.log" 2>&1 || { cat "build/$1-configure.log"; exit 1; }; }
mkdir -p build

step "format"
scripts/lint.sh --format-only

# Nothing is compiled or run twice without a reason. The library and the command are built as users build them (ci). The
# unit tests run once, under the sanitizers, on sources that are compiled many at a time (UNISONO_JOIN); those whose subject
# depends on the optimiser or that the sanitizers shorten (OPTIMISED in unisono_test()) run in both builds. The fuzzers are
# built with the unit tests, on the same libraries.
step "release: build"
configure ci
cmake --build build/ci -j "$jobs"

step "release: property, CLI and package tests, unit tests that depend on the optimiser"
ctest --test-dir build/ci --output-on-failure --no-tests=error -j "$jobs" -LE "^sanitized_only$"
ctest --test-dir build/ci -R "^onnx_node_tests$" -V | sed -n 's/^[0-9]*: \(node tests\|the same with symbols\)/\1/p'  # how many

step "Python package: bindings, calls, PyTorch on the CPU"
scripts/python_tests.sh build/ci "$jobs" -m "not long"  # make test-python runs all

step "AddressSanitizer and UndefinedBehaviorSanitizer: unit tests, fuzzers' build"
configure asan
cmake --build build/asan -j "$jobs" --target unit_tests fuzzers
ctest --test-dir build/asan --output-on-failure --no-tests=error -j "$jobs" -L "^unit$"

step "ThreadSanitizer: CPU and CUDA backends, JIT"
configure tsan
cmake --build build/tsan -j "$jobs" --target thread_tests
ctest --test-dir build/tsan --output-on-failure --no-tests=error -j "$jobs" -L "^threads$"

step "fuzzers, of what reads input and of what that makes run: $fuzz_seconds s each"
rm -rf build/asan/corpus  # the seeds alone: the same run as on any clean clone
scripts/fuzz.sh build/asan "$fuzz_seconds" "$jobs" 1

printf '\n'
sed -n 's/^-- \(not compiled: .*\)/\1/p' build/ci-configure.log
printf 'all tests passed in %d s\n' $((SECONDS - started))
