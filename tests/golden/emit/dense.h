/* Written by `unisono emit`. gemm 96x64x72, B transposed, bf16: sm90_conv, 64x16/12 pingpong cluster 2x2
     y = relu(acc + bias[n])
     store y : bf16
*/
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All of GPU memory, each tensor dense, row by row. No output shares memory with anything else. */
struct dense_arguments {
  const void* left;  /* the left matrix: bf16 (1,96,72), at a multiple of 16 bytes */
  const void* right;  /* the right matrix: bf16 (1,64,72), at a multiple of 16 bytes */
  void* y;  /* output y[m,n]: bf16 (1,96,64), at a multiple of 16 bytes */
  const void* bias;  /* operand bias[n]: f32 (64), at a multiple of 4 bytes */
  void* workspace;         /* at a multiple of 256 bytes, set to 0 before the first launch; of launches that may
                              run at once each has its own. Null if dense_workspace_bytes() is 0 */
  size_t workspace_bytes;  /* at least dense_workspace_bytes() */
};

/* Enqueues the kernel on a cudaStream_t of the current device; safe to call from several threads, and while the
   stream is captured. 0; a cudaError_t, above 0; or, below 0, what dense_text() tells. */
int dense_run(const struct dense_arguments* arguments, void* stream);
const char* dense_text(int status);
size_t dense_workspace_bytes(void);

#ifdef __cplusplus
}
#endif
