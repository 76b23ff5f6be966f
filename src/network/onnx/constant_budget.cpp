#include <algorithm>

#include "network/onnx/importer.hpp"
#include "support/machine_memory.hpp"

namespace unisono::network::onnx_import {

ConstantBudget::ConstantBudget(const OnnxLimits& limits)
    : element_limit_(limits.constant_elements),
      stored_limit_(limits.constant_bytes != 0 ? limits.constant_bytes : support::usable_memory() / 2),
      computed_limit_(limits.computed_bytes) {}

void ConstantBudget::take_elements(std::uint64_t elements, const std::string& what) {
  if (__builtin_add_overflow(elements_, elements, &elements_) || elements_ > element_limit_)
    throw UserError(fmt::format("{}: the constants have more elements than the limit of {}", what, element_limit_));
}

void ConstantBudget::take_stored(std::uint64_t elements, std::uint64_t bytes, const std::string& what) {
  take_elements(elements, what);
  if (__builtin_add_overflow(stored_, bytes, &stored_) || stored_ > stored_limit_)
    throw UserError(
        fmt::format("{}: the model's constants take {} MB and more, and the limit is {} MB (half of this machine's "
                    "memory unless --memory-limit or OnnxLimits::constant_bytes says more)",
                    what, stored_ >> 20, stored_limit_ >> 20));
}

void ConstantBudget::check_computed(std::uint64_t bytes, const std::string& what) const {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(computed_, bytes, &sum) || sum > computed_limit_)
    throw UserError(
        fmt::format("{}: constants that are computed while the model is read take {} MB and more, and the limit is {} "
                    "MB (--memory-limit or OnnxLimits::computed_bytes raises it)",
                    what, sum >> 20, computed_limit_ >> 20));
}

void ConstantBudget::take_computed(std::uint64_t elements, std::uint64_t bytes, const std::string& what) {
  take_elements(elements, what);
  check_computed(bytes, what);
  computed_ += bytes;
}

std::uint64_t ConstantBudget::most_elements(std::size_t element_bytes) const {
  return std::min(element_limit_, stored_limit_ / element_bytes);
}

}  // namespace unisono::network::onnx_import
