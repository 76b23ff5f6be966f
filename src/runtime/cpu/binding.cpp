#include "runtime/cpu/binding.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ir/batch_view.hpp"
#include "ir/op_table.hpp"
#include "ir/row_coordinates.hpp"
#include "runtime/common/names.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

constexpr std::size_t l2_caches = std::size_t{2} << 20;

constexpr DType storable[] = {DType::f64, DType::f32, DType::tf32, DType::f16, DType::bf16, DType::i32, DType::boolean};

class Binder {
 public:
  Binder(const Plan& plan, const Arguments& arguments, const Space& space, const std::vector<std::string>& known)
      : plan_(plan), arguments_(arguments), space_(space), known_(known) {}
  BoundArguments run();

 private:
  std::vector<std::int64_t> shape_of(const Axes& a) const;
  std::vector<std::int64_t> shape_of(const OperandInfo& o) const;
  PixelStrides strides_of(const OperandInfo& o, const std::vector<std::int64_t>& s) const;
  PixelStrides strides_of(const Axes& a, const std::vector<std::int64_t>& s) const;
  BoundTensor number(const OperandInfo& o, double value, const char* source) const;
  BoundTensor operand(const OperandInfo& o) const;
  BoundTensor output(const Store& s) const;
  void check_sharing(BoundArguments& bound) const;
  void check_sharing_with_inputs(std::size_t store, BoundArguments& bound) const;

  const Plan& plan_;
  const Arguments& arguments_;
  const Space& space_;
  const std::vector<std::string>& known_;
};

std::string title(const OperandInfo& o) {
  return fmt::format("operand {}{}", o.name, ir::operand_axes(o.axes, o.rows));
}

std::vector<std::int64_t> strides_or_dense(const ConstTensorView& v) {
  return v.strides.empty() ? row_major_strides(v.shape) : v.strides;
}

std::vector<std::int64_t> Binder::shape_of(const Axes& a) const {
  if (a == axes::mn) return space_.shape_mn;
  std::vector<std::int64_t> shape;
  if (a.row != RowAxis::none) shape.push_back(a.row == RowAxis::m ? plan_.extents.rows() : plan_.extents.images);
  if (a.col != ColAxis::none) shape.push_back(a.col == ColAxis::n ? plan_.extents.cols : a.groups);
  return shape;
}

PixelStrides Binder::strides_of(const Axes& a, const std::vector<std::int64_t>& s) const {
  if (a == axes::mn && s.size() == 5) return volume_strides(s, space_.shape_mn);
  if (a == axes::mn) return s.size() == 3 ? matrix_strides(s) : pixel_strides(s, space_.layout);
  const bool rows = a.row != RowAxis::none, cols = a.col != ColAxis::none;
  const std::int64_t row = rows && !s.empty() ? s[0] : 0, col = cols && !s.empty() ? s.back() : 1;
  if (a.row != RowAxis::m) return {row, 0, 0, col};
  const Extents& e = plan_.extents;
  return {e.rows_per_image() * row, e.width * row, row, col};
}

std::vector<std::int64_t> Binder::shape_of(const OperandInfo& o) const {
  return o.rows == RowCoordinates::all ? shape_of(o.axes) : ir::operand_shape(o.axes, o.rows, plan_.extents);
}

PixelStrides Binder::strides_of(const OperandInfo& o, const std::vector<std::int64_t>& s) const {
  if (o.rows == RowCoordinates::all) return strides_of(o.axes, s);
  const ir::RowSteps steps = ir::operand_steps(o.axes, o.rows, s, plan_.extents);
  return {steps.image, steps.row, steps.pixel, o.axes.col == ColAxis::n ? steps.column : 1};
}

BoundTensor Binder::number(const OperandInfo& o, double value, const char* source) const {
  if (o.dtype == DType::i32 && !(value == std::trunc(value) && value >= -0x1p31 && value < 0x1p31))
    throw UserError(fmt::format("{} has dtype i32 and was given the {} {}; expected an integer of 32 bits", title(o),
                                source, value));
  BoundTensor t;
  t.number = o.dtype == DType::boolean ? (value != 0 ? 1 : 0) : value;
  return t;
}

BoundTensor Binder::operand(const OperandInfo& o) const {
  const bool scalar = o.axes == axes::scalar;
  if (const auto given = arguments_.scalars.find(o.name); given != arguments_.scalars.end()) {
    if (!scalar)
      throw UserError(fmt::format("{} was given the number {}; bind a tensor of shape {}", title(o), given->second,
                                  shape_string(shape_of(o))));
    return number(o, given->second, "number");
  }
  const auto given = arguments_.operands.find(o.name);
  if (given == arguments_.operands.end()) {
    if (o.default_value) return number(o, *o.default_value, "default");
    throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {} in Arguments::operands{}{}",
                                title(o), shape_string(shape_of(o)), to_string(o.storage),
                                scalar ? ", or a number in Arguments::scalars" : "",
                                runtime::bound_near(o.name, arguments_)));
  }
  const ConstTensorView& view = given->second;
  auto shape = shape_of(o);
  if (scalar && view.shape == std::vector<std::int64_t>{1}) shape = {1};
  std::vector<DType> dtypes{o.storage};
  if (o.storage == DType::f32) dtypes.push_back(DType::tf32);  // stored alike
  if (o.storage == DType::tf32) dtypes.push_back(DType::f32);
  const auto strides = checked_strides(view, shape, dtypes, title(o));
  BoundTensor t{.data = view.data, .dtype = view.dtype, .strides = strides_of(o, strides)};
  const std::int64_t cols = o.axes.col == ColAxis::n ? plan_.extents.cols : 1;
  t.lane_by_lane = o.axes.row == RowAxis::m && size_of(view.dtype) == sizeof(float) && is_float(view.dtype) &&
                   o.dtype != DType::f64 && (cols == 1 || t.strides.col == 1) && t.strides.uniform(plan_.extents, cols);
  return t;
}

BoundTensor Binder::output(const Store& s) const {
  const Axes& a = plan_.graph[s.value].axes;
  const std::string what = fmt::format("output {}{}", s.name, to_string(a));
  const auto given = arguments_.outputs.find(s.name);
  if (given == arguments_.outputs.end())
    throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {} in Arguments::outputs", what,
                                shape_string(shape_of(a)), to_string(s.dtype)));
  const TensorView& view = given->second;
  auto shape = shape_of(a);
  if (shape.empty() && view.shape == std::vector<std::int64_t>{1}) shape = {1};
  const DType dtypes[] = {s.dtype};
  const auto strides = checked_strides(view, shape, dtypes, what);
  check_distinct(view, strides, what);
  BoundTensor t{.data = view.data, .target = view.data, .dtype = view.dtype, .strides = strides_of(a, strides)};
  const std::int64_t cols = a.col == ColAxis::n ? plan_.extents.cols : a.col == ColAxis::g ? a.groups : 1;
  t.lane_by_lane = a.row == RowAxis::m && view.dtype == DType::f32 && (cols == 1 || t.strides.col == 1) &&
                   t.strides.uniform(plan_.extents, cols);
  t.past_caches = static_cast<std::size_t>(element_count(shape)) * size_of(view.dtype) > l2_caches;
  return t;
}

void Binder::check_sharing_with_inputs(std::size_t store, BoundArguments& bound) const {
  const Store& s = plan_.graph.stores[store];
  const ConstTensorView view = arguments_.outputs.at(s.name);
  const auto strides = strides_or_dense(view);
  const int stage = plan_.store_stage[store];
  const auto same_elements = [&](const ConstTensorView& x) {
    return x.data == view.data && x.shape == view.shape && strides_or_dense(x) == strides &&
           size_of(x.dtype) == size_of(view.dtype);
  };
  const auto refuse = [&](const std::string& what, const std::string& why) {
    throw UserError(fmt::format("output {} shares memory with {}, {}; give it separate memory", s.name, what, why));
  };
  const auto overlaps = [&](const ConstTensorView& x) {
    return x.data != nullptr && may_overlap(view, strides, x, strides_or_dense(x));
  };
  const auto check_input = [&](const ConstTensorView& x, const std::string& what, bool in_place) {
    if (!overlaps(x)) return;
    if (!in_place) refuse(what, "which is still read when it is written");
    if (!same_elements(x)) refuse(what, "but not element by element");
    if (stage < plan_.accumulator_stage) refuse(what, "which a later stage of the epilogue reads again");
    bound.shares_memory[store] = true;
  };
  const Arguments& from = arguments_;
  const bool product = space_.is_product;
  if (space_.reads_a)
    check_input(product ? from.left : from.image, product ? "the left operand" : "the image", space_.a_is_acc);
  if (space_.reads_b)
    check_input(product ? from.right : from.filter, product ? "the right operand" : "the filter", false);
  if (space_.reads_b && space_.is_dual)
    check_input(from.right1, product ? "the second right operand" : "the second filter", false);
  for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
    const OperandInfo& o = plan_.operands[i];
    const auto x = arguments_.operands.find(o.name);
    if (x == arguments_.operands.end() || !overlaps(x->second)) continue;
    if (o.axes.row != RowAxis::m || !same_elements(x->second)) refuse(title(o), "but not element by element");
    if (stage < plan_.operand_stage[i]) refuse(title(o), "which a later stage of the epilogue reads again");
    bound.shares_memory[store] = true;
  }
}

void Binder::check_sharing(BoundArguments& bound) const {
  const auto& stores = plan_.graph.stores;
  std::vector<runtime::Written> written;
  for (std::size_t i = 0; i < stores.size(); ++i) {
    check_sharing_with_inputs(i, bound);
    const ConstTensorView view = arguments_.outputs.at(stores[i].name);
    written.push_back({view, strides_or_dense(view), "output " + stores[i].name});
  }
  runtime::check_apart(written);
}

BoundArguments Binder::run() {
  runtime::check_names(arguments_, known_, plan_.graph.stores);
  BoundArguments bound;
  for (const OperandInfo& o : plan_.operands) bound.operands.push_back(operand(o));
  for (const Store& s : plan_.graph.stores) bound.outputs.push_back(output(s));
  bound.shares_memory.assign(bound.outputs.size(), false);
  check_sharing(bound);
  return bound;
}

}  // namespace

std::optional<Arguments> with_batch(const Plan& plan, const Arguments& arguments, const Space& space) {
  if (!space.is_product || space.shape_mn[0] != 1) return std::nullopt;
  const auto lacks = [&](const ConstTensorView& view) { return ir::lacks_batch(view, space.shape_mn); };
  bool any = lacks(arguments.left) || lacks(arguments.right) || lacks(arguments.right1);
  for (const auto& [name, view] : arguments.operands) any = any || lacks(view);
  for (const auto& [name, view] : arguments.outputs) any = any || lacks(view);
  if (!any) return std::nullopt;
  Arguments all = arguments;
  const auto lift = [&](auto& view) {
    ConstTensorView batch = ir::in_batch(view, space.shape_mn);
    view.shape = std::move(batch.shape), view.strides = std::move(batch.strides);
  };
  lift(all.left), lift(all.right), lift(all.right1);
  for (const OperandInfo& o : plan.operands)
    if (const auto given = all.operands.find(o.name);
        o.axes == axes::mn && o.rows == RowCoordinates::all && given != all.operands.end())
      lift(given->second);
  for (const Store& s : plan.graph.stores)
    if (const auto given = all.outputs.find(s.name); plan.graph[s.value].axes == axes::mn && given != all.outputs.end())
      lift(given->second);
  return all;
}

BoundArguments bind_arguments(const Plan& plan, const Arguments& arguments, const Space& space,
                              const std::vector<std::string>& known) {
  return Binder(plan, arguments, space, known).run();
}

}  // namespace unisono::cpu
