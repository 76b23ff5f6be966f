#!/usr/bin/env bash
# Programs that run an emitted kernel once and check every element, of examples/epilogues and more, for a machine with a
# Hopper GPU. They need its driver alone. usage: scripts/emit_checks.sh COMMAND FOLDER [JOBS] [--cutlass INCLUDE]
#   scripts/emit_checks.sh build/ci/tools/unisono/unisono build/emit 2
#   for program in build/emit/check_*; do echo "== $program"; $program || exit 1; done     # on that machine
# With --cutlass the same texts by CUTLASS's kernels, too, where these serve them: 40 s a program.
set -euo pipefail
command=$(realpath "$1") folder=$2 jobs=${3:-2} cutlass=""
[ "${4:-}" != --cutlass ] || cutlass=$5
cd "$(dirname "$0")/.."
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
mkdir -p "$folder"
folder=$(realpath "$folder")
list=$folder/list
: >"$list"
# NAME TEXT emit's further arguments; TEXT is a file of examples/epilogues, or the text itself
kernel() {
  local name=$1 text=$2
  shift 2
  [ ! -f "examples/epilogues/$text.txt" ] || text=examples/epilogues/$text.txt
  "$command" emit "$text" "$@" --name "$name" --out "$folder" >/dev/null
  printf '%s\n' "$name" >>"$list"
}
kernel linear_combination linear_combination --gemm '1000,512->768,nn'
kernel bias_gelu_aux bias_gelu_aux --gemm '1000,512->768'
kernel clamp_limits clamp_limits --gemm '1000,512->768'
kernel cross_entropy cross_entropy --gemm '1000,512->768'
kernel cross_entropy_transposed cross_entropy_transposed --gemm '768,512->1000,tn'
kernel cross_entropy_gradient cross_entropy_gradient --gemm '1000,512->768'
kernel three_residuals three_residuals --gemm '1000,512->768'
kernel silu_half silu_half --gemm '3,200,512->768'
kernel swiglu swiglu --gemm '1000,512->1024'
kernel conv_mish_residual conv_mish_residual --conv '4,28,28,64->128,3x3'
kernel conv_group_norm_resident conv_group_norm --conv '4,32,32,128->128,3x3' --plan mode=resident
kernel conv_group_norm_streamed conv_group_norm --conv '4,64,64,64->128,3x3' --plan mode=streamed
kernel depthwise depthwise_relu --conv '4,28,28,128->128,3x3,groups=128'
kernel plain_f32 'store relu(acc + bias[n]) as y : f32' --gemm '300,200->130' --plan family=plain
kernel plain_group_norm 'store group_norm(acc, groups=4, scale=g[n]) as y : f16' --conv '2,17,19,5->12,3x3,stride=2,layout=nchw,dtype=f16' --plan family=plain
kernel softmax_rows 'store softmax(acc*0.125) as p : bf16' --gemm '8,256,64->320'
kernel stem 'store relu(acc + bias[n]) as y : bf16' --conv '2,64,64,3->32,3x3,stride=2,layout=nchw' --plan load=gather
kernel planes 'store relu(acc + bias[n]) as y : bf16' --conv '4,28,28,64->128,3x3,layout=nchw' --plan load=im2col
kernel planes_group_norm conv_group_norm --conv '4,32,32,64->128,3x3,layout=nchw' --plan load=im2col
kernel single_precision 'store acc + bias[n] as y : f32' --gemm '500,300->260,dtype=f32'
flags=(-DUNISONO_SELF_CHECK -std=c++17 -O2 --expt-relaxed-constexpr -cudart static -gencode=arch=compute_90a,code=sm_90a)
xargs -P "$jobs" -I{} "$nvcc" "${flags[@]}" "$folder/{}.cu" -o "$folder/check_{}" <"$list"
if [ -n "$cutlass" ]; then
  : >"$list"
  for text in linear_combination bias_gelu_aux clamp_limits cross_entropy cross_entropy_transposed cross_entropy_gradient three_residuals; do
    kernel "cutlass_$text" $text --gemm '1000,512->768' --plan family=cutlass_evt
  done
  kernel cutlass_silu_half silu_half --gemm '3,200,512->768' --plan family=cutlass_evt
  kernel cutlass_mish_residual conv_mish_residual --conv '4,28,28,64->128,1x1' --plan family=cutlass_evt
  kernel cutlass_conv conv_mish_residual --conv '4,28,28,64->128,3x3' --plan family=cutlass_evt
  flags+=(-DNDEBUG -I "$cutlass" -I "$cutlass/../tools/util/include")
  xargs -P "$jobs" -I{} "$nvcc" "${flags[@]}" "$folder/{}.cu" -o "$folder/check_{}" <"$list"
  : >"$list"
  kernel cutlass80_swiglu swiglu --gemm '1000,512->1024' --plan family=cutlass_evt
  kernel cutlass80_conv conv_mish_residual --conv '4,28,28,64->128,3x3' --plan 'family=cutlass_evt arch=sm80'
  flags=("${flags[@]/-gencode*/-gencode=arch=compute_80,code=compute_80}")
  xargs -P "$jobs" -I{} "$nvcc" "${flags[@]}" "$folder/{}.cu" -o "$folder/check_{}" <"$list"
fi
rm "$list"
ls "$folder"/check_*
