#pragma once
/// Tensors of the float64 reference of networks.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "unisono/tensor.hpp"

namespace unisono::float64 {

/// A tensor in float64, row-major in the order of its logical shape (images: (N,C,H,W)).
struct Tensor64 {
  std::vector<std::int64_t> shape;
  std::vector<double> value;
  std::vector<double> bound;  ///< how far an implementation in f32 may be off, for inputs that are exact
  DType dtype = DType::f32;   ///< dtype of the network's tensor
  /// Each element's margin and its result on the other side, where the operator's result jumps (decision.hpp). Empty
  /// where it does not, and once other operators read the result.
  std::vector<double> margin = {}, other = {};
};

using Tensors64 = std::map<std::string, Tensor64>;

/// The elements of a dense tensor of any dtype in float64. Throws Unsupported, which names the tensor, for an integer
/// beyond 2^53, which no f64 is.
std::vector<double> as_float64(const ConstTensorView& tensor, const std::string& name);
/// The same without refusal: such integers are rounded. For constants that nothing is computed from, such as the end
/// of a slice.
std::vector<double> nearest_float64(const ConstTensorView& tensor);

}  // namespace unisono::float64
