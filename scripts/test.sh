#!/usr/bin/env bash
# Tests that need no GPU. usage: scripts/test.sh test|check JOBS [FUZZ]   (make test and make check set everything up first)
# test:  what shows that a build works: unit tests, command, package, emulated kernels, seeded faults, the Python package.
# check: what finds more, on the same build: the other kernels on the emulated GPU and kernels of CUTLASS's, more of the Python
#        package, the site, the unit tests under the sanitizers, the fuzzers (FUZZ: "fixed" or seconds, as fuzz.sh takes it).
set -euo pipefail
cd "$(dirname "$0")/.."
part=$1 jobs=${2:-$(nproc)} fuzz=${3:-fixed}
started=$SECONDS
# Objects of one clone serve another, and those of tests are kept although they include a precompiled header
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
step() { printf '\n== %s (%d s so far)\n' "$*" $((SECONDS - started)); }
configure() { cmake --preset "$@" > "build/$1-configure.log" 2>&1 || { cat "build/$1-configure.log"; exit 1; }; }
run_tests() { ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "$jobs" "${@:2}"; }
mkdir -p build

# The library, the command and all tests are built once as users build them (preset ci); the sources of the libraries are
# compiled many at a time (UNISONO_JOIN). `make check` compiles the programs of bench/ as well.
step "release: build"
configure ci -DUNISONO_BENCH="$([ "$part" = check ] && echo ON || echo OFF)"
cmake --build build/ci -j "$jobs"

case $part in
  test)
    step "format"
    scripts/lint.sh --format-only

    step "unit, CLI and package tests, kernels on the emulated GPU"
    run_tests ci -LE "^check$"
    sed -n '/^node tests/p; /^the same with symbols/p' build/ci/Testing/Temporary/LastTest.log  # how many

    step "Python package: bindings, calls, PyTorch on the CPU"
    scripts/python_tests.sh build/ci "$jobs" -m "not long and not check"
    ;;
  check)
    step "the other kernels on the emulated GPU, kernels of CUTLASS's, random networks"
    run_tests ci -L "^check$"

    step "Python package: the other tests"
    scripts/python_tests.sh build/ci "$jobs" -m "check and not long"  # make test-python runs all

    step "the site"
    UNISONO_DOCS_PACKAGE=$PWD/build/ci/python scripts/docs.sh

    # The fuzzers are built with the unit tests, on the same libraries
    step "AddressSanitizer and UndefinedBehaviorSanitizer: unit tests, fuzzers' build"
    configure asan
    cmake --build build/asan -j "$jobs" --target unit_tests fuzzers
    run_tests asan -L "^unit$"

    step "ThreadSanitizer: CPU and CUDA backends, JIT"
    configure tsan
    cmake --build build/tsan -j "$jobs" --target thread_tests
    run_tests tsan -L "^threads$"

    step "fuzzers, of what reads input and of what that makes run"
    rm -rf build/asan/corpus  # the seeds alone: the same run as on any clean clone
    scripts/fuzz.sh build/asan "$fuzz" "$jobs" 1
    ;;
  *) echo "test.sh: unknown part '$part'; expected test or check" >&2; exit 2 ;;
esac

printf '\n'
sed -n 's/^-- \(not compiled: .*\)/\1/p' build/ci-configure.log
printf 'make %s: all passed in %d s\n' "$part" $((SECONDS - started))
