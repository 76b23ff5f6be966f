#pragma once
/// The image or matrix on its way into a contraction: used where it stands if it is dense, channels last and of the
/// dtype that is multiplied, else copied.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coda/contraction.hpp"
#include "coda/tensor.hpp"
#include "runtime/cpu/vector/unit.hpp"

namespace coda::cpu {

/// to[i] = element i of `view` in row-major order of its shape, as f32 or bf16.
void copy_dense(const ConstTensorView& view, const std::vector<std::int64_t>& strides, DType target, std::byte* to);

class OperandCopy {
 public:
  /// `shape` is dense, outermost first: (N,H,W,C) of an image in either layout, or the stored shape of a matrix.
  OperandCopy(DType stored, DType target, std::vector<std::int64_t> shape, Layout layout);

  std::size_t scratch_bytes() const;
  void check(const ConstTensorView& view, const std::string& what) const;
  bool direct(const ConstTensorView& view) const;
  void copy_if_needed(const ConstTensorView& view, std::byte* scratch) const;
  const std::byte* dense(const ConstTensorView& view, const std::byte* scratch) const;
  DType target() const { return target_; }
  /// ", f16 converted to f32" and the like; empty if nothing is converted.
  std::string describe() const;

 private:
  std::vector<std::int64_t> caller_shape() const;
  std::vector<std::int64_t> dense_order(const std::vector<std::int64_t>& caller) const;
  std::vector<std::int64_t> strides_of(const ConstTensorView& view) const;

  DType stored_, target_;
  std::vector<std::int64_t> shape_;
  Layout layout_;
};

}  // namespace coda::cpu
