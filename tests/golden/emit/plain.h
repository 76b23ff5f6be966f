/* Written by `unisono emit`. conv2d 1x7x9x5 -> 12, 3x3, stride 2x2, pad 1, nchw, f16: plain, plain 8x32 direct streamed, f16 by f16 without tensor cores
     y = group_norm(acc, groups=3, scale=g[n])
     store y : f16
*/
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All of GPU memory, each tensor dense, row by row. No output shares memory with anything else. */
struct plain_arguments {
  const void* image;  /* the image: f16 (1,5,7,9), at a multiple of 16 bytes */
  const void* filter;  /* the filter: f16 (12,5,3,3), at a multiple of 16 bytes */
  void* y;  /* output y[m,n]: f16 (1,12,4,5), at a multiple of 16 bytes */
  const void* g;  /* operand g[n]: f32 (12), at a multiple of 4 bytes */
  void* workspace;         /* at a multiple of 256 bytes, set to 0 before the first launch; of launches that may
                              run at once each has its own. Null if plain_workspace_bytes() is 0 */
  size_t workspace_bytes;  /* at least plain_workspace_bytes() */
};

/* Enqueues the kernel on a cudaStream_t of the current device; safe to call from several threads, and while the
   stream is captured. 0; a cudaError_t, above 0; or, below 0, what plain_text() tells. */
int plain_run(const struct plain_arguments* arguments, void* stream);
const char* plain_text(int status);
size_t plain_workspace_bytes(void);

#ifdef __cplusplus
}
#endif
