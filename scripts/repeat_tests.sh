#!/usr/bin/env bash
# Looks for tests that fail now and then: those of processes, threads, locks, signals and files 100 times with all cores loaded
# twice over, the others of make test five times. usage: scripts/repeat_tests.sh FOLDER    (a build of the preset ci)
# REPEATS, REPEATS_OF_OTHERS: how many times; TESTS: a regular expression in place of the list. Tests run in copies of the
# folder, made of links, so that one may run beside itself.
# FOLDER-repeated/N/log has what each copy printed. The exit code is 1 if a test failed.
set -euo pipefail
folder=$(realpath "$1") cores=$(nproc)
copies=$((cores / 2 > 0 ? cores / 2 : 1))
names='support|jit|cpu|cpu_parts|cpu_fork|cuda|cuda_.*|driver_allocations|tuning|run_memory|faults|safetensors|media|commands|errors'
names+='|lower|network|onnx|figure|jit_storm.*|bench_scripts|compare_sass|cli_(usage|cache|memory|outputs|pack|tune|doctor|bench|run)'
names=${TESTS:-$names}
rm -rf "$folder-repeated"
mkdir "$folder-repeated"
# in_copy N WHICH TIMES: `-R` or `-E` of the names, in the copy N
in_copy() {
  [ "$3" -gt 0 ] || return 0
  ctest --test-dir "$folder-repeated/$1" --output-on-failure --no-tests=error --schedule-random -LE '^check$' \
    "$2" "^($names)\$" --repeat "until-fail:$3" -j 4 >>"$folder-repeated/$1/log" 2>&1 || touch "$folder-repeated/$1/failed"
}
for n in $(seq "$copies"); do
  cp -as "$folder" "$folder-repeated/$n"
  find "$folder-repeated/$n" -name CTestTestfile.cmake -exec sed -i "s#$folder\\b#$folder-repeated/$n#g" {} +
done
for n in $(seq "$copies"); do
  (in_copy "$n" -R $(((${REPEATS:-100} + copies - 1) / copies)); in_copy "$n" -E $(((${REPEATS_OF_OTHERS:-5} + copies - 1) / copies))) &
done
wait
grep -hE '\*\*\*' "$folder-repeated"/*/log | sort | uniq -c || true
if ls "$folder-repeated"/*/failed >/dev/null 2>&1; then echo "repeat_tests.sh: tests failed; see $folder-repeated/*/log" >&2; exit 1; fi
echo "repeat_tests.sh: ${REPEATS:-100} runs of each test of processes and files, ${REPEATS_OF_OTHERS:-5} of the others: none failed"
