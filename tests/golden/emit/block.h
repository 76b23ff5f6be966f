/* Written by `unisono emit`. conv2d 2x16x16x64 -> 64, 3x3, pad 1, bf16: sm90_conv, 64x16/12+3 pingpong resident
     y = silu(group_norm(acc + bias[n], groups=8, scale=gamma[n], shift=beta[n]))
     store y : bf16
*/
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All of GPU memory, each tensor dense, row by row. No output shares memory with anything else. */
struct block_arguments {
  const void* image;  /* the image: bf16 (2,16,16,64), at a multiple of 16 bytes */
  const void* filter;  /* the filter: bf16 (64,3,3,64), at a multiple of 16 bytes */
  void* y;  /* output y[m,n]: bf16 (2,16,16,64), at a multiple of 16 bytes */
  const void* bias;  /* operand bias[n]: f32 (64), at a multiple of 4 bytes */
  const void* gamma;  /* operand gamma[n]: f32 (64), at a multiple of 4 bytes */
  const void* beta;  /* operand beta[n]: f32 (64), at a multiple of 4 bytes */
  void* workspace;         /* at a multiple of 256 bytes, set to 0 before the first launch; of launches that may
                              run at once each has its own. Null if block_workspace_bytes() is 0 */
  size_t workspace_bytes;  /* at least block_workspace_bytes() */
};

/* Enqueues the kernel on a cudaStream_t of the current device; safe to call from several threads, and while the
   stream is captured. 0; a cudaError_t, above 0; or, below 0, what block_text() tells. */
int block_run(const struct block_arguments* arguments, void* stream);
const char* block_text(int status);
size_t block_workspace_bytes(void);

#ifdef __cplusplus
}
#endif
