#include "tensors/fault.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::tensors {

std::string text_of(const TensorStatus& status) {
  if (status.launch == 0) return "";
  switch (status.fault) {
    case kIndexOutside: return fmt::format("index {} is outside an axis of extent {}", status.index, status.extent);
    case kDivisionByZero: return "integers are divided by 0";
    default: throw InternalError(fmt::format("a kernel reported the unknown fault {}", status.fault));
  }
}

}  // namespace unisono::tensors
