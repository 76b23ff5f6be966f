#!/usr/bin/env bash
# Asks a real cuDNN to plan attention for an H200 on a machine without a GPU (tests/unit/cudnn, IsAcceptedByARealLibrary):
# installs it and NVRTC from PyPI into FOLDER, which may be used again.
#
# usage: scripts/check_cudnn_plans.sh FOLDER [VERSION] [PROGRAM]
#   VERSION   of the package nvidia-cudnn-cu13, 9.13.1.26 unless given
#   PROGRAM   build/ci/tests/unit/cudnn/test_cudnn unless given
#
# cuDNN loads the kernels that it compiles even for a device that is only described, so that it needs a libcuda.so.1.
# Where no driver is, there is a library with the functions of the toolkit's stub; those that load do nothing.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,12p' "$0"; exit 2; }
folder=$(mkdir -p "$1" && cd "$1" && pwd)
version=${2:-9.13.1.26}
program=${3:-build/ci/tests/unit/cudnn/test_cudnn}
stub=${CUDA_HOME:-/usr/local/cuda}/lib64/stubs/libcuda.so
libraries=$folder/$version
[ -e "$libraries/nvidia/cudnn/lib/libcudnn.so.9" ] ||
  python3 -m pip install --quiet --no-deps --target "$libraries" "nvidia-cudnn-cu13==$version" 'nvidia-cuda-nvrtc>=13,<14'

loads='cuLibraryLoadData cuLibraryGetKernel cuLibraryGetModule cuKernelGetFunction cuModuleGetFunction'  # (out, …)
passes='cuLibraryUnload cuKernelSetAttribute cuFuncSetAttribute'
mkdir -p "$folder/driver"
{
  for name in $loads; do echo "int $name(void **out) { return *out = (void *)8, 0; }"; done
  for name in $passes; do echo "int $name(void) { return 0; }"; done
  nm -D --defined-only "$stub" | awk '$2 == "T" && $3 ~ /^cu/ { print $3 }' |
    grep -vxF "$(printf '%s\n' $loads $passes)" | sed 's/.*/int &(void) { return 34; }/'  # CUDA_ERROR_STUB_LIBRARY
} >"$folder/driver/libcuda.c"
"${CC:-cc}" -w -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$folder/driver/libcuda.so.1" "$folder/driver/libcuda.c"

nvrtc=$(dirname "$(find "$libraries" -name 'libnvrtc.so.13' | head -1)")
LD_LIBRARY_PATH=$nvrtc:$folder/driver:$libraries/nvidia/cudnn/lib UNISONO_REAL_CUDNN=$libraries/nvidia/cudnn/lib/libcudnn.so.9 \
  "$program" --gtest_filter=CudnnAttention.IsAcceptedByARealLibrary
