/// Runs a region of one contraction (or none) and one epilogue graph.

#include <fmt/format.h>

#include <algorithm>

#include "network/contraction.hpp"
#include "network/names.hpp"
#include "network/operand_view.hpp"
#include "network/space.hpp"
#include "network/steps.hpp"
#include "runtime/cpu/epilogue.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

// What a contraction reads: rows of columns
ArgumentView rows_and_columns(std::vector<std::int64_t> rows, std::int64_t columns, const Memory& m) {
  ArgumentView v;
  v.shape = std::move(rows);
  v.shape.push_back(columns);
  if (m.planar) {
    const std::int64_t plane = v.shape[1] * v.shape[2];
    v.strides = {columns * plane, v.shape[2], 1, plane};
    return v;
  }
  if (m.dense) {
    v.strides = row_major_strides(v.shape);
    return v;
  }
  v.strides.assign(v.shape.size(), 1);
  std::int64_t step = m.row_stride;
  for (std::size_t i = v.shape.size() - 1; i-- > 0;) {
    v.strides[i] = step;
    step *= v.shape[i];
  }
  return v;
}

// One argument of the executable: which tensor, and how it is seen
struct Argument {
  std::string name;
  TensorId tensor;
  ArgumentView view;
  ConstTensorView read(const Tensors& t) const { return {t.read(tensor), DType::f32, view.shape, view.strides}; }
  TensorView write(const Tensors& t) const { return {t.write(tensor), DType::f32, view.shape, view.strides}; }
};

// A convolution of single pixels with each image as one column of pixels: so the threads can share an image of few rows
// evenly. Graphs of networks know no coordinates.
void flatten_pixels(Contraction& contraction) {
  auto* c = std::get_if<Conv2d>(&contraction);
  const bool pixels = c && c->r == 1 && c->s == 1 && c->groups == 1 && c->stride == Pair(1) && c->pad == Margins(0);
  if (!pixels) return;
  c->h *= c->w;
  c->w = 1;
}

// Where no element knows its image and each image is one row, such as in a matrix, the rows are those of one image:
// strips lie within images.
Extents space_of(const Sizes& sizes, const Graph& graph) {
  const Extents e = extents_of(sizes);
  const bool by_image = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.axes.row == RowAxis::b || node.op == Op::group_norm || node.op == Op::instance_norm;
  });
  if (e.height * e.width != 1 || by_image) return e;
  return {.images = 1, .height = e.images, .width = 1, .cols = e.cols};
}

// A convolution of single pixels, few of them in all, as a matrix product, which is cut by columns
bool is_small_product(const Contraction& contraction, const std::vector<Memory>& memory, const Operator& first,
                      const Region& region) {
  const auto* c = std::get_if<Conv2d>(&contraction);
  const auto planar = [&](const auto& x) { return memory[x.tensor].planar; };
  return c && c->w == 1 && c->r == 1 && c->s == 1 && c->groups == 1 && c->n == 1 && c->h <= 64 &&
         c->stride == Pair(1) && c->pad == Margins(0) && !memory[first.inputs[0]].planar &&
         std::none_of(region.outputs.begin(), region.outputs.end(), planar) &&
         std::none_of(region.operands.begin(), region.operands.end(), planar);
}

// What a region's kernel is compiled for, and which tensors it is called with
class RegionBuilder {
 public:
  RegionBuilder(const FusedNetwork& fused, const Region& region, const Plan& plan, const NetworkOptions& options);

  RegionStep step();

 private:
  const Memory& memory(TensorId id) const { return plan_.storage.memory[id]; }
  const Sizes& sizes(TensorId id) const { return plan_.storage.shapes[id]; }
  Argument argument(const RegionOperand& o) const;
  void read_contraction();
  bool touches_caller() const;

  const FusedNetwork& fused_;
  const Region& region_;
  const Plan& plan_;
  const Operator& first_;
  bool rounds_;
  CompileOptions options_;
  std::optional<Contraction> contraction_;
  Extents space_;
  std::optional<Argument> a_, b_;
  std::vector<Argument> operands_, outputs_;
};

RegionBuilder::RegionBuilder(const FusedNetwork& fused, const Region& region, const Plan& plan,
                             const NetworkOptions& options)
    : fused_(fused),
      region_(region),
      plan_(plan),
      first_(fused.network.operators[region.operators[0]]),
      rounds_(options.short_products && fused.network[first_.output].short_type == DType::bf16) {
  options_.device = options.device;
  options_.threads = options.threads;
  if (region.kind == RegionReport::Kind::contraction) contraction_ = contraction_of(first_, plan.storage.shapes);
  if (contraction_) flatten_pixels(*contraction_);
  if (contraction_ && is_small_product(*contraction_, plan.storage.memory, first_, region)) {
    const Conv2d c = std::get<Conv2d>(*contraction_);
    contraction_ = Gemm{.m = c.h, .n = c.k, .k = c.c, .transpose_b = true};
  }
  space_ = contraction_ ? extents(*contraction_) : space_of(sizes(first_.output), region.graph);
  if (contraction_)
    read_contraction();
  else if (region.source)
    a_ = argument({"", *region.source, axes::mn});
  for (const RegionOperand& o : region.operands) operands_.push_back(argument(o));
  for (std::size_t i = 0; i < region.outputs.size(); ++i) {
    const RegionOutput& o = region.outputs[i];
    outputs_.push_back(argument({o.name, o.tensor, region.graph[region.graph.stores[i].value].axes}));
  }
}

Argument RegionBuilder::argument(const RegionOperand& o) const {
  const auto view =
      operand_view(o, sizes(o.tensor), memory_strides(memory(o.tensor), sizes(o.tensor)), sizes(first_.output));
  if (!view) throw InternalError(fmt::format("{}: '{}' does not fit", where(first_), fused_.network[o.tensor].name));
  const bool gemm = contraction_ && std::holds_alternative<Gemm>(*contraction_);
  return {o.name, o.tensor, argument_view(*view, o.axes, space_, gemm)};
}

// The image, and the filter: an argument, or a constant that the kernel is compiled with
void RegionBuilder::read_contraction() {
  const TensorId image = first_.inputs[0], filter = first_.inputs[1];
  std::vector<std::int64_t> rows = shape_a(*contraction_);
  const std::int64_t columns = rows.back();
  rows.pop_back();
  a_ = Argument{"", image, rows_and_columns(std::move(rows), columns, memory(image))};
  if (const auto& constant = plan_.constants[filter].data) {
    options_.constant_filter = ConstTensorView{constant.get(), DType::f32, shape_b(*contraction_), {}};
    return;
  }
  if (!memory(filter).dense)
    throw Unsupported(
        fmt::format("{}: its filter '{}' is a slice of a concatenation", where(first_), fused_.network[filter].name));
  b_ = Argument{"", filter, {shape_b(*contraction_), {}}};
}

// Whether an argument lies in the caller's memory
bool RegionBuilder::touches_caller() const {
  const auto is_callers = [&](const Argument& x) {
    const auto where = memory(x.tensor).where;
    return where == Memory::Where::input || where == Memory::Where::output;
  };
  return (a_ && is_callers(*a_)) || (b_ && is_callers(*b_)) ||
         std::any_of(operands_.begin(), operands_.end(), is_callers) ||
         std::any_of(outputs_.begin(), outputs_.end(), is_callers);
}

RegionStep RegionBuilder::step() {
  RegionStep step;
  step.reads_caller = touches_caller();
  const auto kernel = cpu::compile_region(contraction_, space_, region_.graph, options_, rounds_);
  step.scratch_bytes = kernel->scratch_bytes();
  if (contraction_) step.flop = flop(*contraction_);
  step.bind = [kernel, contraction = contraction_, a = a_, b = b_, operands = std::move(operands_),
               outputs = std::move(outputs_)](const Tensors& tensors, std::byte* scratch) {
    Arguments arguments;
    if (a) (contraction ? arguments.a(*contraction) : arguments.image) = a->read(tensors);
    if (b) arguments.b(*contraction) = b->read(tensors);
    for (const Argument& o : operands) arguments.operands.emplace(o.name, o.read(tensors));
    for (const Argument& o : outputs) arguments.outputs.emplace(o.name, o.write(tensors));
    return kernel->bind_region(arguments, scratch);
  };
  return step;
}

}  // namespace

RegionStep region_step(const FusedNetwork& fused, const Region& region, const Plan& plan,
                       const NetworkOptions& options) {
  return RegionBuilder(fused, region, plan, options).step();
}

}  // namespace unisono::network
