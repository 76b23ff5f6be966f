#!/usr/bin/env bash
# clang-format on all our sources, then clang-tidy. usage: scripts/lint.sh [--format-only]
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t sources < <(git ls-files 'include/*.hpp' 'src/*.[ch]pp' 'tools/*.[ch]pp' 'bench/*.[ch]pp' 'tests/*.[ch]pp' 'python/*.[ch]pp' '*.cuh' 'kernels/*.hpp' 'tools/*.js')
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 100 clang-format --dry-run --Werror
echo "${#sources[@]} files are formatted"
[ "${1:-}" = --format-only ] && exit 0
# clang's own command lines: it does not know all of GCC's options
cmake --preset release -B build/lint -DCMAKE_CXX_COMPILER=clang++ -DUNISONO_TESTS=OFF -DUNISONO_BENCH=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
cmake --build build/lint --target unisono_onnx_schema >/dev/null  # generates a header
# what this machine's configuration compiles: not the stand-ins for CUDA where it is there
mapfile -t units < <(printf '%s\n' "${sources[@]}" | grep -E '^(src|tools)/.*\.cpp$' \
  | while read -r f; do ! grep -qF "\"file\": \"$PWD/$f\"" build/lint/compile_commands.json || echo "$f"; done)
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/lint --quiet
echo "${#units[@]} units are tidy"
