/* Written by `unisono emit`. conv2d 1x16x16x64 -> 64, 3x3, pad 1, groups 64, bf16: sm90_depthwise, depthwise 64x64 in strips of 4x2 pixels by 4 channels of 3x3 taps
     y = relu(acc + bias[n])
     store y : bf16
*/
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All of GPU memory, each tensor dense, row by row. No output shares memory with anything else. */
struct depthwise_arguments {
  const void* image;  /* the image: bf16 (1,16,16,64), at a multiple of 16 bytes */
  const void* filter;  /* the filter: bf16 (64,3,3,1), at a multiple of 16 bytes */
  void* y;  /* output y[m,n]: bf16 (1,16,16,64), at a multiple of 16 bytes */
  const void* bias;  /* operand bias[n]: f32 (64), at a multiple of 4 bytes */
  void* workspace;         /* at a multiple of 256 bytes, set to 0 before the first launch; of launches that may
                              run at once each has its own. Null if depthwise_workspace_bytes() is 0 */
  size_t workspace_bytes;  /* at least depthwise_workspace_bytes() */
};

/* Enqueues the kernel on a cudaStream_t of the current device; safe to call from several threads, and while the
   stream is captured. 0; a cudaError_t, above 0; or, below 0, what depthwise_text() tells. */
int depthwise_run(const struct depthwise_arguments* arguments, void* stream);
const char* depthwise_text(int status);
size_t depthwise_workspace_bytes(void);

#ifdef __cplusplus
}
#endif
