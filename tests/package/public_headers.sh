#!/usr/bin/env bash
# Every public header compiles alone, and includes the standard library and public headers (and the table of
# operations) only.
set -euo pipefail
cxx=$1 include=$2 failed=0
for header in "$include"/unisono/*.hpp "$include"/unisono/*/*.hpp; do
  echo "#include \"${header#"$include"/}\"" | "$cxx" -std=c++20 -Wall -Wextra -Werror -I "$include" -fsyntax-only -x c++ - || failed=1
  if grep -nE '^ *# *include' "$header" | grep -vE '<[a-z_]+>|"unisono/[a-z_/]+\.(hpp|def)"'; then
    echo "$header: includes something other than the standard library and public headers"; failed=1
  fi
done
exit $failed
