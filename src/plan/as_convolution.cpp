#include "plan/as_convolution.hpp"

namespace unisono::plan {
namespace {

ConvTask of_product(const Gemm& g) {
  ConvTask task(Conv2d{.n = g.batch, .h = 1, .w = g.m, .c = g.k, .k = g.n, .dtype_x = g.dtype_a, .dtype_w = g.dtype_b});
  task.columns_a = g.transpose_a;
  task.columns_b = !g.transpose_b;
  task.batched = g.batch > 1;
  task.products = g.products;
  task.group_rows = g.group_rows;
  return task;
}

ConvTask of_transposed(const ConvTranspose2d& t) {
  ConvTask task(Conv2d{.n = t.n,
                       .h = t.h,
                       .w = t.w,
                       .c = t.c,
                       .k = t.k,
                       .r = t.r,
                       .s = t.s,
                       .stride = t.stride,
                       .pad = t.pad,
                       .dilation = t.dilation,
                       .groups = t.groups,
                       .layout = t.layout,
                       .dtype_x = t.dtype_x,
                       .dtype_w = t.dtype_w});
  task.transposed = t;
  return task;
}

ConvTask of_volume(const Conv3d& v) {
  ConvTask task(Conv2d{.n = v.n,
                       .h = v.d * v.h,
                       .w = v.w,
                       .c = v.c,
                       .k = v.k,
                       .r = v.t * v.r,
                       .s = v.s,
                       .stride = {v.stride.h, v.stride.w},
                       .pad = {v.before.h, v.before.w, v.after.h, v.after.w},
                       .dilation = {v.dilation.h, v.dilation.w},
                       .groups = v.groups,
                       .dtype_x = v.dtype_x,
                       .dtype_w = v.dtype_w});
  const bool voxels = v.t * v.r * v.s == 1 && v.stride == Triple(1) && v.before == Triple(0) && v.after == Triple(0);
  if (!voxels) task.volume = v;
  return task;
}

ConvTask of_gradient(const FilterGradient2d& g) {
  ConvTask task(g.convolution());
  task.gradient = g;
  return task;
}

}  // namespace

ConvTask as_convolution(const Contraction& contraction) {
  if (const auto* conv = std::get_if<Conv2d>(&contraction)) return *conv;
  if (const auto* product = std::get_if<Gemm>(&contraction)) return of_product(*product);
  if (const auto* volume = std::get_if<Conv3d>(&contraction)) return of_volume(*volume);
  if (const auto* gradient = std::get_if<FilterGradient2d>(&contraction)) return of_gradient(*gradient);
  return of_transposed(std::get<ConvTranspose2d>(contraction));
}

}  // namespace unisono::plan
