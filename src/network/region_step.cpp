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
  if (m.dense) return v;
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
  const bool pixels = c && c->r == 1 && c->s == 1 && c->groups == 1 && c->stride == std::array<std::int64_t, 2>{1, 1} &&
                      c->pad == std::array<std::int64_t, 4>{};
  if (!pixels) return;
  c->h *= c->w;
  c->w = 1;
}

// The same of few pixels in all as a matrix product, which is cut by columns
bool is_small_product(const Contraction& contraction, const std::vector<Memory>& memory, const Operator& first,
                      const Region& region) {
  const auto* c = std::get_if<Conv2d>(&contraction);
  const auto planar = [&](const auto& x) { return memory[x.tensor].planar; };
  return c && c->w == 1 && c->r == 1 && c->s == 1 && c->groups == 1 && c->n == 1 && c->h <= 64 &&
         c->stride == std::array<std::int64_t, 2>{1, 1} && c->pad == std::array<std::int64_t, 4>{} &&
         !memory[first.inputs[0]].planar && std::none_of(region.outputs.begin(), region.outputs.end(), planar) &&
         std::none_of(region.operands.begin(), region.operands.end(), planar);
}

}  // namespace

RegionStep region_step(const FusedNetwork& fused, const Region& region, const Plan& plan,
                       const NetworkOptions& options) {
  const Operator& first = fused.network.operators[region.operators[0]];
  const auto& memory = plan.storage.memory;
  CompileOptions compile_options;
  compile_options.device = options.device;
  compile_options.threads = options.threads;

  std::optional<Contraction> contraction;
  if (region.kind == RegionReport::Kind::contraction) contraction = contraction_of(first, plan.storage.shapes);
  if (contraction) flatten_pixels(*contraction);
  if (contraction && is_small_product(*contraction, memory, first, region)) {
    const Conv2d c = std::get<Conv2d>(*contraction);
    contraction = Gemm{.m = c.h, .n = c.k, .k = c.c, .transpose_b = true};
  }
  const bool gemm = contraction && std::holds_alternative<Gemm>(*contraction);
  const Extents space = contraction ? extents(*contraction) : extents_of(plan.storage.shapes[first.output]);

  const auto argument = [&](const RegionOperand& o) {
    const Sizes& sizes = plan.storage.shapes[o.tensor];
    const auto view =
        operand_view(o, sizes, memory_strides(memory[o.tensor], sizes), plan.storage.shapes[first.output]);
    if (!view) throw InternalError(fmt::format("{}: '{}' does not fit", where(first), fused.network[o.tensor].name));
    return Argument{o.name, o.tensor, argument_view(*view, o.axes, space, gemm)};
  };
  std::optional<Argument> a, b;
  if (contraction) {
    const Memory& m = memory[first.inputs[0]];
    std::vector<std::int64_t> rows = shape_a(*contraction);
    const std::int64_t columns = rows.back();
    rows.pop_back();
    a = Argument{"", first.inputs[0], rows_and_columns(std::move(rows), columns, m)};
    b = Argument{"", first.inputs[1], {shape_b(*contraction), {}}};
    if (const auto& constant = plan.constants[first.inputs[1]].data) {
      compile_options.constant_b = ConstTensorView{constant.get(), DType::f32, shape_b(*contraction), {}};
    } else if (!memory[first.inputs[1]].dense) {
      throw Unsupported(fmt::format("{}: its filter '{}' is a slice of a concatenation", where(first),
                                    fused.network[first.inputs[1]].name));
    }
  } else if (region.source) {
    a = argument({"", *region.source, axes::mn});
  }
  std::vector<Argument> operands, outputs;
  for (const RegionOperand& o : region.operands) operands.push_back(argument(o));
  for (std::size_t i = 0; i < region.outputs.size(); ++i) {
    const RegionOutput& o = region.outputs[i];
    outputs.push_back(argument({o.name, o.tensor, region.graph[region.graph.stores[i].value].axes}));
  }
  const bool constant_b = compile_options.constant_b.has_value();
  if (constant_b) b.reset();
  RegionStep step;
  const auto note = [&](const Argument& x) {
    const auto where = memory[x.tensor].where;
    step.reads_caller = step.reads_caller || where == Memory::Where::input || where == Memory::Where::output;
  };
  for (const auto* one : {&a, &b})
    if (*one) note(**one);
  for (const auto* list : {&operands, &outputs}) std::for_each(list->begin(), list->end(), note);
  const auto kernel = cpu::compile_region(contraction, space, region.graph, compile_options);
  step.scratch_bytes = kernel->scratch_bytes();
  step.bind = [kernel, a, b, operands = std::move(operands), outputs = std::move(outputs)](const Tensors& tensors,
                                                                                           std::byte* scratch) {
    Arguments arguments;
    if (a) arguments.a = a->read(tensors);
    if (b) arguments.b = b->read(tensors);
    for (const Argument& o : operands) arguments.operands.emplace(o.name, o.read(tensors));
    for (const Argument& o : outputs) arguments.outputs.emplace(o.name, o.write(tensors));
    return kernel->bind_region(arguments, scratch);
  };
  return step;
}

}  // namespace unisono::network
