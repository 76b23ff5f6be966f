#!/usr/bin/env bash
# A program with the shared libraries that it needs, glibc's own apart, as one archive for a machine that lacks them.
# usage: scripts/carry.sh PROGRAM ARCHIVE.tar.xz
# there: tar xf ARCHIVE.tar.xz && LD_LIBRARY_PATH=$PWD/carried carried/PROGRAM
set -euo pipefail
program=$1 archive=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/carried"
cp "$program" "$folder/carried/"
strip "$folder/carried/$(basename "$program")"
ldd "$program" | awk '$2 == "=>" && $3 !~ /\/(libc|libm|libpthread|libdl|librt)\.so/ {print $3}' |
  xargs -I{} cp -L {} "$folder/carried/"
tar -C "$folder" -cJf "$archive" carried
ls -l "$archive"
