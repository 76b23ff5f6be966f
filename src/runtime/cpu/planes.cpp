#include "runtime/cpu/planes.hpp"

namespace unisono::cpu {

Taps taps_of(const Conv3d& c, const Extents& e) {
  return {.count = c.t,
          .stride = c.stride[0],
          .before = c.before[0],
          .dilation = c.dilation[0],
          .planes = c.d,
          .rows = e.height / output_planes(c)};
}
Conv2d in_plane(const Conv3d& c) {
  return {.n = c.n,
          .h = c.h,
          .w = c.w,
          .c = c.c,
          .k = c.k,
          .r = c.r,
          .s = c.s,
          .stride = {c.stride[1], c.stride[2]},
          .pad = {c.before[1], c.before[2], c.after[1], c.after[2]},
          .dilation = {c.dilation[1], c.dilation[2]},
          .groups = c.groups,
          .dtype_x = c.dtype_x,
          .dtype_w = c.dtype_w};
}

}  // namespace unisono::cpu
