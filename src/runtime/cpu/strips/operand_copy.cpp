#include "runtime/cpu/strips/operand_copy.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "runtime/cpu/elements.hpp"
#include "runtime/cpu/scratch.hpp"
#include "runtime/cpu/views.hpp"
#include "runtime/cpu/worker_pool.hpp"
#include "support/float_convert.hpp"

namespace coda::cpu {

namespace {

// count elements at a stride, converted
void convert_run(const std::byte* from, DType t, std::int64_t stride, std::int64_t count, DType target, std::byte* to) {
  const VectorUnit& unit = vector_unit();
  if (target == DType::f32) {
    auto* out = reinterpret_cast<float*>(to);
    load_floats(unit, from, t, stride, static_cast<std::size_t>(count), out);
    if (t == DType::tf32)
      for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(support::round_to(out[i], DType::tf32));
    return;
  }
  auto* out = reinterpret_cast<std::uint16_t*>(to);
  const auto* in = reinterpret_cast<const std::uint16_t*>(from);  // bf16 to bf16
  if (stride == 1) {
    std::memcpy(out, in, static_cast<std::size_t>(count) * 2);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = in[i * stride];
  }
}

}  // namespace

void copy_dense(const ConstTensorView& view, const std::vector<std::int64_t>& strides, DType target, std::byte* to) {
  const auto& shape = view.shape;
  const std::int64_t width = shape.empty() ? 1 : shape.back();
  const std::int64_t stride = shape.empty() ? 1 : strides.back();
  std::vector<std::int64_t> at(shape.size(), 0);
  const std::int64_t runs = element_count(shape) / width;
  std::int64_t offset = 0;
  for (std::int64_t run = 0; run < runs; ++run) {
    convert_run(element(view.data, offset, view.dtype), view.dtype, stride, width, target,
                element(to, run * width, target));
    for (auto d = shape.size(); d-- > 1;) {  // the next run: an odometer over all axes but the last
      const auto axis = d - 1;
      offset += strides[axis];
      if (++at[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      at[axis] = 0;
    }
  }
}

OperandCopy::OperandCopy(DType stored, DType target, std::vector<std::int64_t> shape, Layout layout)
    : stored_(stored), target_(target), shape_(std::move(shape)), layout_(layout) {}

std::size_t OperandCopy::scratch_bytes() const {
  return aligned_size(static_cast<std::size_t>(element_count(shape_)) * size_of(target_));
}

std::vector<std::int64_t> OperandCopy::caller_shape() const {
  if (layout_ == Layout::nhwc) return shape_;
  return {shape_[0], shape_[3], shape_[1], shape_[2]};
}

// (N,C,H,W) quantities in the order (N,H,W,C)
std::vector<std::int64_t> OperandCopy::dense_order(const std::vector<std::int64_t>& x) const {
  if (layout_ == Layout::nhwc) return x;
  return {x[0], x[2], x[3], x[1]};
}

std::vector<std::int64_t> OperandCopy::strides_of(const ConstTensorView& view) const {
  return dense_order(view.strides.empty() ? row_major_strides(view.shape) : view.strides);
}

void OperandCopy::check(const ConstTensorView& view, const std::string& what) const {
  const DType allowed[] = {stored_};
  checked_strides(view, caller_shape(), allowed, what);
}

bool OperandCopy::direct(const ConstTensorView& view) const {
  if (stored_ != target_) return false;
  const auto strides = strides_of(view), dense = row_major_strides(shape_);
  for (std::size_t i = 0; i < shape_.size(); ++i)
    if (shape_[i] > 1 && strides[i] != dense[i]) return false;
  return true;
}

void OperandCopy::copy_if_needed(const ConstTensorView& view, std::byte* scratch) const {
  if (direct(view)) return;
  const auto strides = strides_of(view);
  const std::int64_t outer = shape_[0] * shape_[1], inner = element_count(shape_) / outer;
  const std::vector<std::int64_t> rest(shape_.begin() + 2, shape_.end()),
      rest_strides(strides.begin() + 2, strides.end());
  WorkerPool::shared().for_each(available_cores(), outer, [&](std::int64_t i, int) {
    const std::int64_t offset = i / shape_[1] * strides[0] + i % shape_[1] * strides[1];
    copy_dense({element(view.data, offset, view.dtype), view.dtype, rest, {}}, rest_strides, target_,
               element(scratch, i * inner, target_));
  });
}

const std::byte* OperandCopy::dense(const ConstTensorView& view, const std::byte* scratch) const {
  return direct(view) ? static_cast<const std::byte*>(view.data) : scratch;
}

std::string OperandCopy::describe() const {
  if (stored_ == target_) return {};
  return fmt::format(", {} converted to {}", to_string(stored_), to_string(target_));
}

}  // namespace coda::cpu
