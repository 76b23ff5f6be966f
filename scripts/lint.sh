#!/usr/bin/env bash
# clang-format on all our sources, then clang-tidy. usage: scripts/lint.sh [--format-only]
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t sources < <(git ls-files 'include/*.hpp' 'src/*.[ch]pp' 'tools/*.[ch]pp' 'bench/*.[ch]pp' 'tests/*.[ch]pp')
clang-format --dry-run --Werror "${sources[@]}"
echo "${#sources[@]} files are formatted"
[ "${1:-}" = --format-only ] && exit 0
cmake --preset release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
mapfile -t units < <(printf '%s\n' "${sources[@]}" | grep -E '^(src|tools)/.*\.cpp$')
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/release --quiet
echo "${#units[@]} units are tidy"
