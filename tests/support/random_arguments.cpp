#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/row_coordinates.hpp"
#include "ir/store_forms.hpp"
#include "support/float_convert.hpp"
#include "support/random.hpp"
#include "support/random_graph.hpp"

namespace unisono::test {

namespace {

using Shape = std::vector<std::int64_t>;

double special_value(Random& r) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return r.one_of({0.0, -0.0, infinity, -infinity, std::numeric_limits<double>::quiet_NaN(), 3e38, -3e38, 1e-41, -1e-41,
                   1.0, -1.0, 65504.0});
}

double element(Random& r, DType t, const RandomOptions& options) {
  if (t == DType::boolean) return r.below(2);
  if (t == DType::i32) return r.between(-1, 4);
  if (r.chance(options.special)) return special_value(r);
  return r.uniform(-2, 2);
}

// A tensor filled from `r`; with padding, rows of the innermost extent lie further apart than they are long
ConstTensorView fill(RandomCase& c, Random& r, const Shape& shape, DType dtype, const RandomOptions& options,
                     bool padded) {
  Buffer buffer;
  buffer.view.dtype = dtype;
  buffer.view.shape = shape;
  std::int64_t size = element_count(shape);
  if (padded && !shape.empty()) {
    Shape roomy = shape;
    roomy.back() += r.between(1, 3);
    buffer.view.strides = row_major_strides(roomy);
    size = element_count(roomy);
  }
  buffer.bytes.resize(static_cast<std::size_t>(size) * size_of(dtype));
  for (std::int64_t i = 0; i < size; ++i) support::store(buffer.bytes.data(), i, dtype, element(r, dtype, options));
  buffer.view.data = buffer.bytes.data();
  c.buffers.push_back(std::move(buffer));
  return c.buffers.back().view;
}

bool labels(const Graph& g, ValueId operand) {
  return std::any_of(g.nodes.begin(), g.nodes.end(),
                     [&](const Node& x) { return x.op == Op::one_hot && x.inputs[0] == operand; });
}

DType bound_dtype(Random& r, const Graph& g, ValueId id, const RandomOptions& options) {
  const Node& x = g[id];
  if (x.attr.storage) return *x.attr.storage;
  if (labels(g, id)) return DType::i32;
  if (!options.short_storage || r.chance(0.7)) return DType::f32;
  return options.f16 && r.chance(0.3) ? DType::f16 : DType::bf16;
}

void bind_operand(RandomCase& c, Random& r, const Graph& graph, ValueId id, const Contraction& contraction,
                  const RandomOptions& options) {
  const Node& x = graph[id];
  const std::string& name = x.attr.name;
  if (x.attr.default_value && r.chance(0.5)) return;  // unbound
  if (x.axes == axes::scalar) {
    if (r.chance(0.6)) {
      c.arguments.scalars[name] = support::round_to(element(r, x.dtype, options), x.attr.storage.value_or(DType::f32));
      return;
    }
  }
  const DType dtype = bound_dtype(r, graph, id, options);
  if (!x.attr.storage) c.storage[name] = dtype;
  const bool padded = x.axes == axes::mn && r.chance(options.strided);
  const auto shape = x.attr.rows == RowCoordinates::all ? shape_in_memory(x.axes, contraction)
                                                        : ir::operand_shape(x.axes, x.attr.rows, extents(contraction));
  c.arguments.operands[name] = fill(c, r, shape, dtype, options, padded);
}

void bind_operands(RandomCase& c, Random& r, const Graph& graph, const Contraction& contraction,
                   const RandomOptions& options) {
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (graph[id].op == Op::operand) bind_operand(c, r, graph, id, contraction, options);
}

struct InputDTypes {
  DType a, b;
};

InputDTypes input_dtypes(const Contraction& contraction) {
  if (const auto* gemm = std::get_if<Gemm>(&contraction)) return {gemm->dtype_a, gemm->dtype_b};
  if (const auto* conv = std::get_if<Conv2d>(&contraction)) return {conv->dtype_x, conv->dtype_w};
  if (const auto* volume = std::get_if<Conv3d>(&contraction)) return {volume->dtype_x, volume->dtype_w};
  const auto& transposed = std::get<ConvTranspose2d>(contraction);
  return {transposed.dtype_x, transposed.dtype_w};
}

}  // namespace

Shape shape_in_memory(const Axes& a, const Contraction& contraction) {
  if (a == axes::mn) return shape_mn(contraction);
  const Extents e = extents(contraction);
  Shape shape;
  if (a.row != RowAxis::none) shape.push_back(a.row == RowAxis::m ? e.rows() : e.images);
  if (a.col != ColAxis::none) shape.push_back(a.col == ColAxis::n ? e.cols : a.groups);
  return shape;
}

void random_arguments(RandomCase& c, std::uint64_t seed, const RandomOptions& options) {
  Random r(seed ^ 0x61726775u);
  RandomOptions ordinary = options;
  ordinary.special = 0;
  const auto dtypes = input_dtypes(c.contraction);
  c.arguments.a(c.contraction) = fill(c, r, shape_a(c.contraction), dtypes.a, ordinary, false);
  c.arguments.b(c.contraction) = fill(c, r, shape_b(c.contraction), dtypes.b, ordinary, false);
  if (product_count(c.contraction) == 2)
    c.arguments.right1 = fill(c, r, shape_b(c.contraction), dtypes.b, ordinary, false);
  bind_operands(c, r, c.graph, c.contraction, options);
  for (const Store& s : c.graph.stores) {
    const auto shape = s.form == StoreForm::whole ? shape_in_memory(c.graph[s.value].axes, c.contraction)
                                                  : ir::shape_of(s.form, c.contraction);
    const ConstTensorView view = fill(c, r, shape, s.dtype, ordinary, false);
    c.arguments.outputs[s.name] = {c.buffers.back().bytes.data(), view.dtype, view.shape, view.strides};
  }
  poison_outputs(c);
}

void poison_outputs(RandomCase& c) {
  for (auto& buffer : c.buffers)
    for (const auto& [name, output] : c.arguments.outputs)
      if (output.data == buffer.bytes.data()) std::fill(buffer.bytes.begin(), buffer.bytes.end(), std::byte{0xff});
}

}  // namespace unisono::test
