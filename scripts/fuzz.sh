#!/usr/bin/env bash
# Runs every fuzzer, several beside one another. usage: scripts/fuzz.sh BUILD EFFORT JOBS [SEED [NAMES]]
# EFFORT is a number of seconds for each, or "fixed": the runs that runs_of() says, the same on a fast machine and a slow one.
# NAMES is an extended regular expression for the fuzzers' names, by default all.
# A fixed effort with a seed is the same inputs each time, so that what passed on one machine passes on another; without a seed,
# each run is a new one.
# A crash, a hang of 10 s, or an allocation above 512 MiB fails; the input is kept in BUILD/findings.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 effort=$2 jobs=${3:-1} seed=${4:-0} names=${5:-.*}  # libFuzzer draws a seed for 0
findings=$build/findings
mkdir -p "$findings"
# Mutations copy values that the program compared, addresses too: they are the same only at fixed addresses
steady=""
setarch -R true 2> /dev/null && steady="setarch -R"
# At most half a minute each on a slow core
runs_of() {
  case $1 in gpu) echo 800 ;; run) echo 2500 ;; plans) echo 5000 ;; onnx) echo 8000 ;; *) echo 60000 ;; esac
}
run_one() {
  local binary=$1 name seeds corpus dictionary=() limit
  name=$(basename "$binary" | sed s/^fuzz_//)
  corpus=$build/corpus/$name  # new inputs go here, the seeds stay as they are
  mkdir -p "$corpus"
  seeds=$name
  case $name in run|gpu) seeds=onnx ;; esac
  [ -f "tests/fuzz/$seeds.dict" ] && dictionary=(-dict="tests/fuzz/$seeds.dict")
  limit=-max_total_time=$effort
  [ "$effort" = fixed ] && limit=-runs=$(runs_of "$name")
  if $steady "$binary" -seed="$seed" "$limit" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1 \
      -artifact_prefix="$findings/$name-" "${dictionary[@]}" "$corpus" "tests/fuzz/corpus/$seeds" > "$build/$name.log" 2>&1; then
    printf '%-12s %s\n' "$name" "$(sed -n 's/stat::number_of_executed_units: */executions: /p' "$build/$name.log")"
  else
    tail -40 "$build/$name.log"; echo "$name: FAILED, input in $findings"; return 1
  fi
}
export -f run_one runs_of; export effort seed build findings steady
find "$build" -name 'fuzz_*' -type f -perm -u+x | grep -E "/fuzz_($names)\$" | sort | xargs -P "$jobs" -I{} bash -c 'run_one {}'
