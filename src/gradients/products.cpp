/// Matrix products.

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"

namespace unisono::autodiff {

namespace {

// All axes but the last as rows
NetworkValue as_rows(NetworkValue x) {
  const std::int64_t columns = extents_of(x).back();
  return shaped(x, {columns == 0 ? 0 : elements_of(extents_of(x)) / columns, columns});
}

// y = a·b, which are (M,K) and (K,N), each perhaps transposed; of y (M,N)
NetworkValue of_left(const operators::Gemm& g, NetworkValue b, NetworkValue y) {
  if (g.transpose_a) return gemm(b, y, {.transpose_a = g.transpose_b, .transpose_b = true});  // (K,M) = b·yᵀ
  return gemm(y, b, {.transpose_b = !g.transpose_b});
}

NetworkValue of_right(const operators::Gemm& g, NetworkValue a, NetworkValue y) {
  if (g.transpose_b) return gemm(y, a, {.transpose_a = true, .transpose_b = g.transpose_a});  // (N,K) = yᵀ·a
  return gemm(a, y, {.transpose_a = !g.transpose_a});
}

}  // namespace

InputGradients derivative_of(const operators::Gemm& g, const Use& use) {
  InputGradients result(use.in.size());
  const NetworkValue a = as_rows(use.in[0]), y = as_rows(use.gradient);
  if (use.wanted[0]) result[0] = shaped(of_left(g, use.in[1], y), extents_of(use.in[0]));
  if (use.wanted[1]) result[1] = of_right(g, a, y);
  if (use.in.size() > 2 && use.wanted[2]) result[2] = reduced(ReduceOp::sum, y, {0}, false);
  return result;
}

// (…,M,K)·(…,K,N)
InputGradients derivative_of(const operators::MatMul&, const Use& use) {
  InputGradients result(2);
  const NetworkValue a = use.in[0], b = use.in[1], y = use.gradient;
  const bool one_matrix = b.shape().size() == 2;  // for all of a's
  if (use.wanted[0]) result[0] = summed_to(use.net.apply(operators::MatMul{}, {y, transposed(b)}), extents_of(a));
  if (use.wanted[1] && one_matrix) result[1] = of_right({}, as_rows(a), as_rows(y));
  if (use.wanted[1] && !one_matrix)
    result[1] = summed_to(use.net.apply(operators::MatMul{}, {transposed(a), y}), extents_of(b));
  return result;
}

}  // namespace unisono::autodiff
