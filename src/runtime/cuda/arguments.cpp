#include "runtime/cuda/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "ir/batch_view.hpp"
#include "ir/row_coordinates.hpp"
#include "plan/as_convolution.hpp"
#include "runtime/common/names.hpp"
#include "runtime/common/views.hpp"
#include "runtime/cuda/placed_arguments.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

using runtime::shape_string;
using Field = codegen::Field;

constexpr std::size_t tma_alignment = 16;  // and that of the widest load of an operand [m,n]

class Binder {
 public:
  Binder(const Signature& signature, const Arguments& arguments) : s_(signature), arguments_(arguments) {}
  BoundArguments run();

 private:
  /// What the caller bound: of a view that has been checked
  Address bound(const std::string& name, const std::string& what, const ConstTensorView& view, std::size_t alignment,
                Slot::Kind kind);
  Address matrix(const char* name, const ConstTensorView& view, const std::vector<std::int64_t>& shape, DType dtype,
                 const char* what, std::int64_t& step);
  void both_rights(const ConstTensorView& right, const std::vector<std::int64_t>& shape, DType dtype);
  Address output(std::size_t store);
  Address moments();
  Address resampled(const std::string& name, std::int64_t num, std::int64_t den, std::int64_t& pitch);
  /// What a kernel reads, and the slot that it comes from
  struct Word {
    std::uint64_t bits = 0;
    std::size_t slot = no_slot;
  };
  static Word word(const Address& a) { return {reinterpret_cast<std::uintptr_t>(a.data), a.slot}; }
  Word field(const Field& field, const Contraction& contraction);
  Address operand(const Field& field, const Contraction& contraction);
  bool lies_apart(const std::string& operand) const;
  std::uint64_t pitch(const Field& field) const;
  Word number(const Field& field);
  std::uint64_t operand_place(const Field& field, const Contraction& contraction) const;
  std::uint64_t store_step(const Field& field) const;
  Word pointer(const Field& field);
  Address stored(const Field& field);

  const Signature& s_;
  const Arguments& arguments_;
  BoundArguments bound_;
};

std::string title(const char* kind, const std::string& name, const Axes& axes, RowCoordinates rows = {}) {
  return fmt::format("{} {}{}", kind, name, ir::operand_axes(axes, rows));
}

Address Binder::bound(const std::string& name, const std::string& what, const ConstTensorView& view,
                      std::size_t alignment, Slot::Kind kind) {
  Slot slot{.name = name, .what = what, .view = view, .alignment = alignment, .kind = kind};
  if (slot.view.strides.empty()) slot.view.strides = row_major_strides(view.shape);
  const runtime::ByteRange bytes = runtime::byte_range(view, slot.view.strides);
  bound_.pointers.push_back(
      {view.data, element_count(view.shape) == 0 ? 0 : static_cast<std::size_t>(bytes.last - bytes.first), what});
  bound_.slots.push_back(std::move(slot));
  return {view.data, bound_.slots.size() - 1};
}

Address Binder::output(std::size_t store) {
  const Store& s = s_.stores[store];
  const Axes& axes = s_.store_axes[store];
  const std::string what = title("output", s.name, axes);
  const auto given = arguments_.outputs.find(s.name);
  if (given == arguments_.outputs.end())
    throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {} in Arguments::outputs", what,
                                shape_string(shape_of(axes, s_.contraction)), to_string(s.dtype)));
  const auto shape = shape_of(axes, s_.contraction);
  const ConstTensorView view = ir::in_batch(given->second, shape);
  if (s.strided) {
    check_strided(view, shape, s.dtype, what);
    check_distinct_elements(view, what);
    return bound(s.name, what, view, size_of(s.dtype), Slot::Kind::output);
  }
  if (store == s_.main_store)
    bound_.output_pitch = check_rows(view, shape, s.dtype, tma_alignment, what);
  else
    check_tensor(view, shape, s.dtype, axes == axes::mn ? tma_alignment : size_of(s.dtype), what);
  return bound(s.name, what, view, axes == axes::mn ? tma_alignment : size_of(s.dtype), Slot::Kind::output);
}

// What is made of the main store, of an image num/den as high and as wide
Address Binder::resampled(const std::string& name, std::int64_t num, std::int64_t den, std::int64_t& pitch) {
  if (name.empty()) return {};
  auto shape = shape_mn(s_.contraction);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) shape[i] = shape[i] * num / den;
  const Store& s = s_.stores[*s_.main_store];
  const std::string what = fmt::format("output {} ({} {})", name, num > den ? "upsampled" : "pooled", s.name);
  const auto given = arguments_.outputs.find(name);
  if (given == arguments_.outputs.end())
    throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {} in Arguments::outputs", what,
                                shape_string(shape), to_string(s.dtype)));
  const TensorView& view = given->second;
  pitch = check_rows(view, shape, s.dtype, tma_alignment, what);
  return bound(name, what, view, tma_alignment, Slot::Kind::output);
}

Address Binder::moments() {
  if (s_.moments.empty()) return {};
  const std::string what = fmt::format("output {} (statistics of {})", s_.moments, s_.stores[*s_.main_store].name);
  const auto given = arguments_.outputs.find(s_.moments);
  if (given == arguments_.outputs.end())
    throw UserError(fmt::format("{} are not bound; give a tensor of shape {} and dtype f32 in Arguments::outputs", what,
                                shape_string(s_.moments_shape)));
  check_tensor(given->second, s_.moments_shape, DType::f32, tma_alignment, what);
  return bound(s_.moments, what, given->second, tma_alignment, Slot::Kind::output);
}

Binder::Word Binder::number(const Field& f) {
  const std::string what = title("operand", f.name, f.axes);
  double value = 0;
  if (const auto given = arguments_.scalars.find(f.name); given != arguments_.scalars.end()) {
    value = given->second;
  } else if (const auto view = arguments_.operands.find(f.name); view != arguments_.operands.end()) {
    throw UserError(fmt::format(
        "{} was given a tensor; expected a number in Arguments::scalars, which the launch carries. For a scalar in the "
        "GPU's memory name it in CompileOptions::device_scalars",
        what));
  } else if (const auto preset = s_.defaults.find(f.name); preset != s_.defaults.end()) {
    value = preset->second;
  } else {
    throw UserError(fmt::format("{} is not bound; give a number in Arguments::scalars{}", what,
                                runtime::bound_near(f.name, arguments_)));
  }
  bound_.slots.push_back({.name = f.name, .what = what});
  bound_.slots.back().view.dtype = f.dtype;
  return {bits_of(value, f.dtype, what), bound_.slots.size() - 1};
}

Address Binder::operand(const Field& f, const Contraction& contraction) {
  const std::string what = title("operand", f.name, f.axes, f.rows);
  auto shape = operand_shape(f, contraction);
  if (const auto number = arguments_.scalars.find(f.name); number != arguments_.scalars.end())
    throw UserError(fmt::format("{} was given the number {}; bind a tensor of shape {}", what, number->second,
                                shape_string(shape)));
  const auto given = arguments_.operands.find(f.name);
  if (given == arguments_.operands.end() && s_.defaults.contains(f.name) && !(f.axes == axes::scalar))
    return {};  // the kernel has the default
  if (given == arguments_.operands.end())
    throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {} in Arguments::operands{}",
                                what, shape_string(shape), to_string(f.dtype),
                                runtime::bound_near(f.name, arguments_)));
  const ConstTensorView view = in_memory(given->second, f, contraction);
  if (shape.empty() && view.shape == std::vector<std::int64_t>{1}) shape = {1};
  const std::size_t alignment = f.axes == axes::mn ? tma_alignment : size_of(f.dtype);
  if (f.strided || f.rows != RowCoordinates::all) {
    check_placed(view, f, shape, what);
    return bound(f.name, what, view, size_of(f.dtype), Slot::Kind::operand);
  }
  if (lies_apart(f.name))
    check_rows(view, shape, f.dtype, alignment, what);
  else
    check_tensor(view, shape, f.dtype, alignment, what);
  return bound(f.name, what, view, alignment, Slot::Kind::operand);
}

// A step, or whether neighbours are loaded together: of what is not bound, and has its default, 0
std::uint64_t Binder::operand_place(const Field& f, const Contraction& contraction) const {
  const auto of_name = [&](const Field& x) { return x.kind == Field::Kind::operand_pointer && x.name == f.name; };
  const Field& operand = *std::ranges::find_if(s_.fields, of_name);
  const auto given = arguments_.operands.find(f.name);
  if (given == arguments_.operands.end()) return 0;
  const Placed placed{in_memory(given->second, operand, contraction), operand.axes, operand.rows};
  return f.kind == Field::Kind::operand_vectors ? loads_vectors(placed, contraction)
                                                : step_of(placed, f.coordinate, contraction);
}

std::uint64_t Binder::store_step(const Field& f) const {
  const auto shape = shape_of(axes::mn, s_.contraction);
  return step_of({ir::in_batch(arguments_.outputs.at(f.name), shape), axes::mn}, f.coordinate, s_.contraction);
}

Binder::Word Binder::pointer(const Field& f) {
  const std::string what = fmt::format("captured pointer {}", f.name);
  const auto given = arguments_.pointers.find(f.name);
  if (given == arguments_.pointers.end())
    throw UserError(fmt::format("{} is not bound; give an address of the GPU's memory in Arguments::pointers", what));
  if (given->second == nullptr) throw UserError(fmt::format("{} was given a null pointer", what));
  const std::size_t alignment = s_.pointer_alignments.at(f.name);
  if (const auto address = reinterpret_cast<std::uintptr_t>(given->second); address % alignment != 0)
    throw UserError(fmt::format("{} was given the address {:#x}; expected a multiple of {} bytes, as its type needs",
                                what, address, alignment));
  return word(bound(f.name, what, {given->second, DType::boolean, {1}, {}}, alignment, Slot::Kind::operand));
}

// Whether the kernel is told how far apart the operand's images lie
bool Binder::lies_apart(const std::string& operand) const {
  return std::any_of(s_.fields.begin(), s_.fields.end(),
                     [&](const Field& f) { return f.kind == Field::Kind::pitch && f.name == operand; });
}

// The stride from image to image of an operand [b,n] that has been checked
std::uint64_t Binder::pitch(const Field& f) const {
  const ConstTensorView& view = arguments_.operands.at(f.name);
  const std::int64_t pitch = view.strides.empty() || view.shape[0] == 1 ? view.shape[1] : view.strides[0];
  if (pitch * view.shape[0] > std::numeric_limits<std::int32_t>::max())
    throw UserError(fmt::format(
        "operand {}[b,n] was given images {} elements apart, {} of them; kernels count its elements to 2^31: lay them "
        "closer",
        f.name, pitch, view.shape[0]));
  return static_cast<std::uint64_t>(pitch);
}

std::uint64_t extent(Coordinate coordinate, const Contraction& contraction) {
  const Extents e = extents(contraction);
  switch (coordinate) {
    case Coordinate::m: return static_cast<std::uint64_t>(e.rows());
    case Coordinate::n: return static_cast<std::uint64_t>(e.cols);
    case Coordinate::b: return static_cast<std::uint64_t>(e.images);
    case Coordinate::h: return static_cast<std::uint64_t>(e.height);
    case Coordinate::w: return static_cast<std::uint64_t>(e.width);
  }
  throw InternalError("an extent of an unknown coordinate");
}

Address Binder::stored(const Field& f) {
  for (std::size_t i = 0; i < s_.stores.size(); ++i)
    if (s_.stores[i].name == f.name) return output(i);
  throw InternalError(fmt::format("the kernel stores {}, but the graph has no such store", f.name));
}

Binder::Word Binder::field(const Field& f, const Contraction& contraction) {
  switch (f.kind) {
    case Field::Kind::operand_pointer: return word(operand(f, contraction));
    case Field::Kind::operand_value: return number(f);
    case Field::Kind::store_pointer: return word(stored(f));
    case Field::Kind::extent: return {.bits = extent(f.coordinate, contraction)};
    case Field::Kind::pitch: return {.bits = pitch(f)};
    case Field::Kind::operand_step:
    case Field::Kind::operand_vectors: return {.bits = operand_place(f, contraction)};
    case Field::Kind::store_step: return {.bits = store_step(f)};
    case Field::Kind::pointer: return pointer(f);
  }
  throw InternalError("a field of an unknown kind");
}

// What is multiplied, in the words of its contraction
struct Factors {
  DType dtype_a, dtype_b;
  const char *a, *b;            // in messages
  const char *name_a, *name_b;  // names of their slots
};

Factors factors(const Contraction& contraction) {
  if (const auto* g = std::get_if<Gemm>(&contraction))
    return {g->dtype_a, g->dtype_b, "the left matrix", "the right matrix", "left", "right"};
  if (const auto* g = std::get_if<FilterGradient2d>(&contraction))
    return {g->dtype_y, g->dtype_x, "the output's gradient (left)", "the image (right)", "left", "right"};
  const Conv2d conv = plan::as_convolution(contraction).conv;
  return {conv.dtype_x, conv.dtype_w, "the image", "the filter", "image", "filter"};
}

// An operand that is multiplied; those of several products may lie apart
Address Binder::matrix(const char* name, const ConstTensorView& view, const std::vector<std::int64_t>& shape,
                       DType dtype, const char* what, std::int64_t& step) {
  const auto* product = std::get_if<Gemm>(&s_.contraction);
  const bool apart = product != nullptr && shape[0] > 1;
  check_tensor(view, shape, dtype, tma_alignment, what, apart);
  if (apart && !view.strides.empty()) step = view.strides[0];
  return bound(name, what, view, tma_alignment, Slot::Kind::factor);
}

// The right operands of a dual product, or filters of a dual convolution, which lie alike. Filters are dense. Rows of
// one product's B (n, k) may lie apart: those of the two may alternate in one tensor
void Binder::both_rights(const ConstTensorView& right, const std::vector<std::int64_t>& shape, DType dtype) {
  const auto* product = std::get_if<Gemm>(&s_.contraction);
  const ConstTensorView right1 = ir::in_batch(arguments_.right1, shape);
  const char *first = product ? "the right matrix" : "the filter",
             *second = product ? "the second right matrix (right1)" : "the second filter (right1)";
  std::int64_t distance = 0, distance1 = 0;  // of rows, or of the batch's matrices
  if (product && product->batch == 1 && product->transpose_b) {
    distance = check_rows(right, shape, dtype, tma_alignment, first);
    distance1 = check_rows(right1, shape, dtype, tma_alignment, second);
    bound_.b = bound("right", first, right, tma_alignment, Slot::Kind::factor);
    bound_.b1 = bound("right1", second, right1, tma_alignment, Slot::Kind::factor);
    bound_.b_pitch = distance;
  } else {
    bound_.b = matrix(product ? "right" : "filter", right, shape, dtype, first, distance);
    bound_.b1 = matrix("right1", right1, shape, dtype, second, distance1);
    bound_.step_b = distance;
    for (std::int64_t* step : {&distance, &distance1})
      if (*step == 0) *step = shape[1] * shape[2];
  }
  if (distance != distance1)
    throw UserError(
        fmt::format("{} and {} have different layouts: strides of {} elements and of {} (rows: 0 if dense). A kernel "
                    "steps through both at once; give them the same layout",
                    second, first, distance1, distance));
}

// What the caller binds
std::vector<Store> bound_stores(const Signature& s) {
  std::vector<Store> all = s.stores;
  if (s.resampled.only_upsampled) all.erase(all.begin() + static_cast<std::ptrdiff_t>(*s.main_store));
  for (const std::string& name : {s.resampled.upsampled, s.resampled.pooled, s.moments})
    if (!name.empty()) all.push_back({.value = {}, .dtype = {}, .name = name});
  return all;
}

BoundArguments Binder::run() {
  const auto* product = std::get_if<Gemm>(&s_.contraction);
  const bool is_dual = product_count(s_.contraction) == 2;
  runtime::check_factors(arguments_, has_left_and_right(s_.contraction), is_dual);
  runtime::check_names(arguments_, s_.operands, bound_stores(s_));
  runtime::check_pointers(arguments_, s_.pointers);
  const Factors factor = factors(s_.contraction);
  const auto left_shape = shape_a(s_.contraction), right_shape = shape_b(s_.contraction);
  const ConstTensorView left = ir::in_batch(arguments_.a(s_.contraction), left_shape);
  const ConstTensorView right = ir::in_batch(arguments_.b(s_.contraction), right_shape);
  const bool is_gradient = std::holds_alternative<FilterGradient2d>(s_.contraction);
  if (!is_gradient &&
      (product == nullptr || (product->batch == 1 && !product->transpose_a))) {  // pixels, or rows, may lie apart
    bound_.a_pitch = check_rows(left, left_shape, factor.dtype_a, tma_alignment, factor.a);
    bound_.a = bound(factor.name_a, factor.a, left, tma_alignment, Slot::Kind::factor);
  } else {
    bound_.a = matrix(factor.name_a, left, left_shape, factor.dtype_a, factor.a, bound_.step_a);
  }
  if (s_.reads_b && is_dual)
    both_rights(right, right_shape, factor.dtype_b);
  else if (s_.reads_b)
    bound_.b = matrix(factor.name_b, right, right_shape, factor.dtype_b, factor.b, bound_.step_b);
  if (s_.main_store && !s_.resampled.only_upsampled) bound_.output = output(*s_.main_store);
  bound_.upsampled = resampled(s_.resampled.upsampled, 2, 1, bound_.upsampled_pitch);
  bound_.pooled = resampled(s_.resampled.pooled, 1, 2, bound_.pooled_pitch);
  bound_.moments = moments();
  if (s_.side_store) bound_.side = output(*s_.side_store);
  for (const Field& f : s_.fields) {
    const Word w = field(f, s_.contraction);
    bound_.fields.add(w.bits, w.slot);
  }
  check_sharing(bound_.slots);
  return std::move(bound_);
}

}  // namespace

BoundArguments bind_arguments(const Signature& signature, const Arguments& arguments) {
  return Binder(signature, arguments).run();
}

}  // namespace unisono::cuda
