#include "plan/as_convolution.hpp"

namespace unisono::plan {
namespace {

ConvTask of_product(const Gemm& g) {
  ConvTask task(Conv2d{.n = g.batch, .h = 1, .w = g.m, .c = g.k, .k = g.n, .dtype_x = g.dtype_a, .dtype_w = g.dtype_b});
  task.columns_a = g.transpose_a;
  task.columns_b = !g.transpose_b;
  task.batched = g.batch > 1;
  task.products = g.products;
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

}  // namespace

ConvTask as_convolution(const Contraction& contraction) {
  if (const auto* conv = std::get_if<Conv2d>(&contraction)) return *conv;
  if (const auto* product = std::get_if<Gemm>(&contraction)) return of_product(*product);
  return of_transposed(std::get<ConvTranspose2d>(contraction));
}

}  // namespace unisono::plan
