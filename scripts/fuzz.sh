#!/usr/bin/env bash
# Runs every fuzzer for a time, several beside one another. usage: scripts/fuzz.sh BUILD SECONDS JOBS [SEED [NAMES]]
# NAMES is an extended regular expression for the fuzzers' names, by default all.
# A seed makes a run repeatable, so that a test that passed on one machine does on another; without, each run is a new one.
# A crash, a hang of 10 s, or an allocation above 512 MiB fails; the input is kept in BUILD/findings.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 seconds=$2 jobs=${3:-1} seed=${4:-0} names=${5:-.*}  # libFuzzer draws a seed for 0
findings=$build/findings
mkdir -p "$findings"
run_one() {
  local binary=$1 name seeds corpus dictionary=()
  name=$(basename "$binary" | sed s/^fuzz_//)
  corpus=$build/corpus/$name  # new inputs go here, the seeds stay as they are
  mkdir -p "$corpus"
  seeds=$name
  case $name in run|gpu) seeds=onnx ;; esac
  [ -f "tests/fuzz/$seeds.dict" ] && dictionary=(-dict="tests/fuzz/$seeds.dict")
  if "$binary" -seed="$seed" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1 \
      -artifact_prefix="$findings/$name-" "${dictionary[@]}" "$corpus" "tests/fuzz/corpus/$seeds" > "$build/$name.log" 2>&1; then
    printf '%-12s %s\n' "$name" "$(sed -n 's/stat::number_of_executed_units: */executions: /p' "$build/$name.log")"
  else
    tail -40 "$build/$name.log"; echo "$name: FAILED, input in $findings"; return 1
  fi
}
export -f run_one; export seconds seed build findings
find "$build" -name 'fuzz_*' -type f -perm -u+x | grep -E "/fuzz_($names)\$" | sort | xargs -P "$jobs" -I{} bash -c 'run_one {}'
