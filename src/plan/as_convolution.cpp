#include "plan/as_convolution.hpp"

namespace unisono::plan {
namespace {

ConvTask of_product(const Gemm& g) {
  ConvTask lowered(
      Conv2d{.n = g.batch, .h = 1, .w = g.m, .c = g.k, .k = g.n, .dtype_x = g.dtype_a, .dtype_w = g.dtype_b});
  lowered.columns_a = g.transpose_a;
  lowered.columns_b = !g.transpose_b;
  lowered.batched = g.batch > 1;
  return lowered;
}

ConvTask of_transposed(const ConvTranspose2d& t) {
  ConvTask lowered(Conv2d{.n = t.n,
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
  lowered.transposed = t;
  return lowered;
}

}  // namespace

ConvTask as_convolution(const Contraction& contraction) {
  if (const auto* conv = std::get_if<Conv2d>(&contraction)) return *conv;
  if (const auto* product = std::get_if<Gemm>(&contraction)) return of_product(*product);
  return of_transposed(std::get<ConvTranspose2d>(contraction));
}

std::optional<ConvTask> by_phases(const Contraction& contraction) {
  const auto* t = std::get_if<ConvTranspose2d>(&contraction);
  if (t == nullptr || beyond_phases(*t)) return std::nullopt;
  ConvTask lowered = of_transposed(*t);
  Conv2d& c = lowered.conv;
  lowered.phases = true;
  c.stride = {1, 1};
  c.r = phase_taps(t->r), c.s = phase_taps(t->s);
  return lowered;
}

}  // namespace unisono::plan
