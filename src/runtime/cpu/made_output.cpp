#include "runtime/cpu/made_output.hpp"

#include <fmt/format.h>

#include "ir/batch_view.hpp"
#include "runtime/common/views.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

using Strides = std::vector<std::int64_t>;

Strides given_strides(const ConstTensorView& t) { return t.strides.empty() ? row_major_strides(t.shape) : t.strides; }

}  // namespace

Strides checked_made_output(const std::string& name, const std::string& what, const std::vector<std::int64_t>& shape,
                            DType dtype, const Arguments& arguments) {
  const auto given = arguments.outputs.find(name);
  if (given == arguments.outputs.end())
    throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {} in Arguments::outputs", what,
                                runtime::shape_string(shape), to_string(dtype)));
  const ConstTensorView view = ir::in_batch(given->second, shape);
  const DType dtypes[] = {dtype};
  const Strides strides = runtime::checked_strides(view, shape, dtypes, what);
  runtime::check_distinct(view, strides, what);
  const auto check = [&](const ConstTensorView& other, const std::string& title) {
    if (other.data != nullptr && runtime::may_overlap(view, strides, other, given_strides(other)))
      throw UserError(fmt::format("{} shares memory with {}; give it separate memory", what, title));
  };
  check(arguments.image, "the image"), check(arguments.filter, "the filter");
  check(arguments.left, "the left operand"), check(arguments.right, "the right operand");
  check(arguments.right1, "the second right operand");
  for (const auto& [other, x] : arguments.operands) check(x, "operand " + other);
  for (const auto& [other, x] : arguments.outputs)
    if (other != name) check(x, "output " + other);
  return strides;
}

}  // namespace unisono::cpu
