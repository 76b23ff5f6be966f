#include "gpu/testbed.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "gpu/kernels.hpp"
#include "gpu/moments.hpp"
#include "gpu/options.hpp"
#include "gpu/trend.hpp"
#include "lower/lower.hpp"
#include "passes/split_stores.hpp"
#include "plan/resampling.hpp"
#include "reference/resampled.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cuda/driver.hpp"
#include "support/float_convert.hpp"
#include "support/random.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {

using cuda::check;
using cuda::driver;

namespace {

std::size_t byte_count(DType t, const std::vector<std::int64_t>& shape) {
  return static_cast<std::size_t>(element_count(shape)) * size_of(t);
}

DType storage_of(const Node& operand, const CompileOptions& options) {
  if (operand.attr.storage) return *operand.attr.storage;
  const auto given = options.storage.find(operand.attr.name);
  return given == options.storage.end() ? DType::f32 : given->second;
}

std::uint64_t hash(const std::string& name) {
  std::uint64_t h = 1469598103934665603u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

// All bits between the rows are still set
bool gaps_hold(const Tensor& t) {
  const std::size_t rank = t.shape.size(), size = size_of(t.dtype);
  const auto pitch = static_cast<std::size_t>(t.strides[rank - 2]) * size,
             row = static_cast<std::size_t>(t.shape[rank - 1]) * size;
  for (std::size_t at = 0; at < t.host.size(); at += pitch)
    if (std::any_of(t.host.begin() + static_cast<std::ptrdiff_t>(at + row),
                    t.host.begin() + static_cast<std::ptrdiff_t>(at + pitch),
                    [](std::byte b) { return b != std::byte{0xff}; }))
      return false;
  return true;
}

// The name of the result [m,n] whose rows may lie apart
std::string main_output(const Graph& graph, const Contraction& contraction) {
  const plan::Epilogue e = lower::analyse(contraction, graph, {}).value().epilogue();
  return e.graph.stores[e.outputs.at(0).store].name;
}

}  // namespace

Testbed::Testbed(const Case& c) : c_(c), graph_(passes::split_stores(graph_of(c)).graph) {
  const Contraction contraction = c_.contraction();
  // The filter's mean hands the image's on to every channel
  const auto k = static_cast<double>(depth(contraction));
  add("(a)", c_.conv.dtype_x, shape_a(contraction), 0, 1, Trend(c_));
  add("(b)", c_.conv.dtype_w, shape_b(contraction), c_.deviation / k, c_.deviation / std::sqrt(k));
  if (is_dual()) add("(b1)", c_.conv.dtype_w, shape_b(contraction), 0, c_.deviation / std::sqrt(k));
  for (const Node& x : graph_.nodes) {
    if (x.op != Op::operand || tensors_.contains(x.attr.name)) continue;
    const std::string& name = x.attr.name;
    if (x.axes == axes::scalar && !c_.options.device_scalars.contains(name)) continue;
    if (name.starts_with("unbound")) continue;  // it has a default
    const bool scale = name == "gamma" || name == "alpha";
    const bool bias = name == "bias";
    add(name, storage_of(x, c_.options), reference::shape_of(x, contraction),
        scale  ? 1
        : bias ? c_.offset
               : 0,
        bias ? c_.deviation : 0.6);
    operands_.push_back(name);
    if (x.attr.strided) lay_out(name, true);
  }
  const plan::Resampled& made = c_.resampled;
  const std::string main = main_store();
  for (const Store& s : graph_.stores) {
    const auto shape = reference::shape_of(graph_[s.value].axes, contraction);
    if (!made.only_upsampled || s.name != main) add_output(s.name, s.dtype, shape);
    if (s.strided) lay_out(s.name, false);
    for (const std::string& name : {made.pooled, made.upsampled})
      if (s.name == main && !name.empty())
        add_output(name, s.dtype,
                   name == made.pooled ? reference::pooled_shape(shape) : reference::upsampled_shape(shape));
  }
  if (c_.moments != 0)
    add_output(moments_name, DType::f32,
               families::moments_shape(kernel_of(c_, planning_device()).plan(), extents(contraction).cols));
  const std::size_t rank = tensors_.at("(a)").shape.size();
  for (const char* name : {"(a)", "(b)", "(b1)"})
    if (c_.gaps.matrices != 0 && tensors_.contains(name)) add_gaps(name, 0, c_.gaps.matrices, true);
  if (c_.gaps.image != 0) add_gaps("(a)", rank - 2, c_.gaps.image, true);
  if (c_.gaps.output != 0) add_gaps(main_output(graph_, contraction), rank - 2, c_.gaps.output, false);
  if (!c_.witnessed.empty()) add_witness();
}

// Columns by columns, with gaps, and images one behind the other; a tensor called shared… has one image for all
void Testbed::lay_out(const std::string& name, bool input) {
  Tensor& t = tensors_.at(name);
  const std::size_t rank = t.shape.size(), size = size_of(t.dtype);
  std::vector<std::size_t> order;  // the fastest axis first: rows, columns, images
  for (std::size_t i = rank; i-- > 1;)
    if (i + 1 != rank) order.push_back(i);
  if (rank > 1) order.push_back(rank - 1);
  order.push_back(0);
  t.strides.assign(rank, 0);
  std::int64_t step = rank == 1 ? 3 : 1;
  for (const std::size_t i : order) {
    if (i == 0 && name.starts_with("shared")) continue;
    t.strides[i] = step;
    step = step * t.shape[i] + (i + 1 == rank ? 5 : 0);
  }
  std::vector<std::byte> apart(static_cast<std::size_t>(step + 1) * size, std::byte{0xff});
  for (std::int64_t i = 0; i < element_count(t.shape); ++i) {
    std::int64_t at = 0, rest = i;
    for (std::size_t axis = rank; axis-- > 0; rest /= t.shape[axis]) at += rest % t.shape[axis] * t.strides[axis];
    std::copy_n(t.host.begin() + i * static_cast<std::ptrdiff_t>(size), size,
                apart.begin() + at * static_cast<std::ptrdiff_t>(size));
  }
  if (input) t.dense = std::move(t.device);
  t.host = std::move(apart);
  t.device = std::make_unique<Buffer>(t.host.size());
  t.device->upload(t.host.data());
}

// Between neighbours along `axis`: so many elements of poison, and as many more as make their distance a multiple of 8
void Testbed::add_gaps(const std::string& name, std::size_t axis, std::int64_t gap, bool input) {
  Tensor& t = tensors_.at(name);
  const std::size_t rank = t.shape.size(), size = size_of(t.dtype);
  std::int64_t inner = 1;
  t.strides.assign(rank, 1);
  for (std::size_t i = rank; i-- > 0;) {
    t.strides[i] = i + 1 == rank ? 1 : t.strides[i + 1] * t.shape[i + 1];
    if (i == axis) inner = t.strides[i], t.strides[i] = (inner + 7) / 8 * 8 + gap;
  }
  const std::int64_t step = t.strides[axis], count = element_count(t.shape) / inner;
  std::vector<std::byte> apart(static_cast<std::size_t>(count * step) * size, std::byte{0xff});
  for (std::int64_t i = 0; i < count; ++i)
    std::copy_n(t.host.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i * inner) * size),
                static_cast<std::size_t>(inner) * size,
                apart.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i * step) * size));
  if (input) t.dense = std::move(t.device);
  t.host = std::move(apart);
  t.device = std::make_unique<Buffer>(t.host.size());
  t.device->upload(t.host.data());
}

// A counter (all bits set: the first visit makes it zero) and a value for each cell
void Testbed::add_witness() {
  const auto rows = extents(c_.contraction()).rows(), cols = extents(c_.contraction()).cols;
  witness_ = std::make_unique<Buffer>(static_cast<std::size_t>(c_.witness_axes == "m" ? rows : rows * cols) * 8);
  const auto address = reinterpret_cast<std::uintptr_t>(witness_->data());
  for (int i = 0; i < 3; ++i)
    c_.scalars[fmt::format("witness{}", i)] = static_cast<double>(address >> 24 * i & 0xffffff);
}

void Testbed::add_output(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) {
  Tensor& t = tensors_[name];
  t.dtype = dtype, t.shape = shape;
  t.host.assign(byte_count(dtype, shape), std::byte{0xff});
  t.device = std::make_unique<Buffer>(t.host.size());
  outputs_.push_back(name);
}

std::string Testbed::main_store() const {
  if (!c_.resampled.any()) return "";
  const plan::Epilogue e = lower::analyse(c_.contraction(), graph_of(c_), c_.options).value().epilogue();
  return e.graph.stores[*plan::main_store(e)].name;
}

// Uniform numbers of this mean, to which the trend is added, and deviation; integers of -3 to 3, and bools
void Testbed::add(const std::string& name, DType dtype, std::vector<std::int64_t> shape, double mean, double deviation,
                  const std::function<double(std::int64_t)>& trend) {
  Tensor& t = tensors_[name];
  t.dtype = dtype, t.shape = shape;
  t.host.resize(byte_count(dtype, shape));
  test::Random random(c_.seed * 0x9e3779b97f4a7c15u + hash(name));
  const std::int64_t count = element_count(shape);
  const double width = std::sqrt(3.0) * deviation;
  for (std::int64_t i = 0; i < count; ++i) {
    double value = mean + random.uniform(-width, width) + (trend ? trend(i) : 0);
    if (dtype == DType::i32) value = random.between(-3, 3);
    if (dtype == DType::boolean) value = random.chance(0.5) ? 1 : 0;
    support::store(t.host.data(), i, dtype, value);
  }
  t.device = std::make_unique<Buffer>(t.host.size());
  t.device->upload(t.host.data());
}

Arguments Testbed::arguments() const {
  Arguments a;
  a.a(c_.contraction()) = tensors_.at("(a)").on_device();
  a.b(c_.contraction()) = tensors_.at("(b)").on_device();
  if (is_dual()) a.right1 = tensors_.at("(b1)").on_device();
  for (const std::string& name : operands_) a.operands[name] = tensors_.at(name).on_device();
  for (const std::string& name : outputs_) a.outputs[name] = tensors_.at(name).on_device();
  a.scalars = c_.scalars;
  return a;
}

Arguments Outcome::arguments() const {
  Arguments a;
  a.a(c.contraction()) = tensors.at("(a)").on_host();
  a.b(c.contraction()) = tensors.at("(b)").on_host();
  for (const std::string& name : runtime::operand_names(graph))
    if (const auto t = tensors.find(name); t != tensors.end()) a.operands[name] = t->second.on_host();
  a.scalars = c.scalars;
  return a;
}

Executable Testbed::compile() const {
  const bool beyond_options = c_.moments != 0 || c_.delays || c_.filters_ahead;
  if (beyond_options) return compile_case(c_);
  CompileOptions chosen = c_.options;
  chosen.device_index = options().device;
  return unisono::compile(c_.contraction(), graph_of(c_), chosen);
}

void Testbed::poison(CUstream stream) {
  for (const std::string& name : outputs_) tensors_.at(name).device->poison(stream);
  if (witness_) witness_->poison(stream);
}

std::vector<std::vector<std::byte>> Testbed::outputs() const {
  std::vector<std::vector<std::byte>> all;
  for (const std::string& name : output_names()) all.push_back(tensors_.at(name).device->contents());
  if (witness_) all.push_back(witness_->contents());
  return all;
}

std::vector<std::string> Testbed::output_names() const {
  std::vector<std::string> names = outputs_;
  std::sort(names.begin(), names.end());
  return names;
}

std::string Testbed::broken_guard() const {
  for (const auto& [name, t] : tensors_)
    if (!t.device->guards_hold()) return name;
  if (witness_ && !witness_->guards_hold()) return "what was seen";
  return "";
}

reference::Values Testbed::accumulator(const std::string& filter) const {
  if (c_.options.plan.starts_with("family=plain"))  // operands of two types, which no kernel for tests takes
    return reference::contract(c_.contraction(), tensors_.at("(a)").on_host(), tensors_.at(filter).on_host());
  if (c_.gradient || c_.volume || (c_.product && !c_.product->group_rows.empty())) {  // nor these
    const double terms = static_cast<double>(depth(c_.contraction()));
    return reference::contract(c_.contraction(), tensors_.at("(a)").on_host(), tensors_.at(filter).on_host(),
                               {.accumulate = accumulator_error(c_.contraction()) / terms});
  }
  const auto count = static_cast<std::size_t>(element_count(shape_mn(c_.contraction())));
  const Buffer sum(count * 8), absolute(count * 8);
  const auto a = tensors_.at("(a)").without_gaps(), b = tensors_.at(filter).without_gaps();
  if (c_.product)
    launch("unisono_reference_product", count, nullptr, product_of(*c_.product), a, b, sum.address(),
           absolute.address());
  else if (c_.transposed || c_.conv.c % 8 != 0 || c_.conv.k % 8 != 0 || c_.conv.groups != 1 ||
           c_.conv.layout == Layout::nchw || size_of(c_.conv.dtype_x) != 2)
    launch("unisono_reference_general", count, nullptr, general_of(c_.as_computed()), a, b, sum.address(),
           absolute.address());
  else
    launch("unisono_reference", count / 8, nullptr, shape_of(c_.conv), a, b, sum.address(), absolute.address());
  wait(nullptr, "the reference contraction of " + c_.describe());
  reference::Values acc{.axes = axes::mn, .value = std::vector<double>(count), .bound = std::vector<double>(count)};
  sum.download(acc.value.data());
  absolute.download(acc.bound.data());
  const double error = accumulator_error(c_.as_computed());
  for (double& bound : acc.bound) bound *= error;
  return acc;
}

reference::ErrorModel error_model(const Case& c, const families::Plan::Numerics& numerics) {
  return error_model(c.as_computed(), graph_of(c), c.options.accurate, numerics);
}

// Sums by atomic operations may have other bits each time, if the plan says that they may
std::string Testbed::differences(const std::vector<std::vector<std::byte>>& first,
                                 const std::vector<std::vector<std::byte>>& second) const {
  const bool atomic = c_.options.plan.find("reductions=atomic") != std::string::npos;
  const Graph graph = judged_graph_of(c_);
  const auto is_folded = [&](const std::string& name) {
    return std::ranges::any_of(graph.stores,
                               [&](const Store& s) { return s.name == name && graph[s.value].axes != axes::mn; });
  };
  const auto names = output_names();
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first[i] != second[i] && !(atomic && i < names.size() && is_folded(names[i])))
      return "another run, other bits\n";
  return "";
}

Outcome Testbed::run(const Executable& executable, std::string& problems) {
  const Arguments arguments = this->arguments();
  std::vector<std::vector<std::byte>> first;
  for (int round = 0; round < 2; ++round) {
    poison(nullptr);
    executable.enqueue(arguments, nullptr);
    wait(nullptr, c_.describe());
    if (round == 0)
      first = outputs();
    else
      problems += differences(first, outputs());
  }
  if (const std::string name = broken_guard(); !name.empty()) problems += "something was written beside " + name + "\n";
  Outcome o{
      .c = c_, .graph = passes::split_stores(judged_graph_of(c_)).graph, .tensors = {}, .acc = accumulator("(b)")};
  if (is_dual()) o.acc1 = accumulator("(b1)");
  const lower::Lowered lowered = kernel_of(c_, device().device);
  o.config = conv_config(lowered.plan()), o.numerics = lowered.plan().numerics;
  o.main = main_store();
  for (const auto& [name, t] : tensors_) o.tensors[name] = Tensor{t.host, nullptr, t.dtype, t.shape, t.strides};
  const auto names = output_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    Tensor& t = o.tensors.at(names[i]);
    t.host = first[i];
    if (t.strides.empty() || gaps_hold(t)) continue;
    problems += "something was written between the rows of " + names[i] + "\n";
  }
  if (witness_) problems += take_witness(first.back(), o);
  return o;
}

// What was seen, as one more result
std::string Testbed::take_witness(const std::vector<std::byte>& cells, Outcome& o) const {
  const Contraction contraction = c_.contraction();
  Tensor& t = o.tensors[witness_name];
  t.dtype = DType::f32, t.shape = reference::shape_of(c_.witness_axes == "m" ? axes::m : axes::mn, contraction);
  const std::size_t count = cells.size() / 8;
  t.host.resize(count * 4);
  // Cells are rows and columns; of channels first the tensor is (N, K, P, Q)
  const bool planes = c_.witness_axes != "m" && c_.conv.layout == Layout::nchw;
  const Extents e = extents(contraction);
  const auto pixels = static_cast<std::size_t>(e.rows_per_image()), cols = static_cast<std::size_t>(e.cols);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t times = 0;
    std::memcpy(&times, cells.data() + 8 * i, 4);
    wrong += times != 0;
    const std::size_t row = i / cols, to = planes ? (row / pixels * cols + i % cols) * pixels + row % pixels : i;
    std::memcpy(t.host.data() + 4 * to, cells.data() + 8 * i + 4, 4);
  }
  return wrong == 0 ? "" : fmt::format("{} of {} elements or rows were not seen once\n", wrong, count);
}

namespace {

// Exactly the store's elements
std::string judge_resampled(const Outcome& o, const ConstTensorView& y) {
  std::string text;
  for (const std::string& name : {o.c.resampled.upsampled, o.c.resampled.pooled}) {
    if (name.empty()) continue;
    const ConstTensorView made = o.tensors.at(name).on_host();
    if (const auto at = reference::first_other(y, made))
      text += fmt::format("{}: element {} is {}\n", name, *at, support::load(made.data, *at, made.dtype));
  }
  return text;
}

}  // namespace

std::string judge(const Outcome& o, Tally* tally) {
  const plan::Resampled& made = o.c.resampled;
  std::vector<std::byte> alone;  // the main store, where it is written upsampled only
  if (made.only_upsampled) alone = reference::shrunk(o.tensors.at(made.upsampled).on_host());
  const auto tensor = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    return made.only_upsampled && name == o.main
               ? ConstTensorView{alone.data(), o.tensors.at(made.upsampled).dtype, shape, {}}
               : o.tensors.at(name).on_host();
  };
  const auto expected =
      reference::evaluate(o.graph, o.c.contraction(), o.acc, o.acc1, o.arguments(), error_model(o.c, o.numerics));
  std::string text = made.any() ? judge_resampled(o, tensor(o.main, shape_mn(o.c.contraction()))) : "";
  if (o.c.moments != 0) text += judge_moments(o, tensor(o.graph.stores[0].name, shape_mn(o.c.contraction())));
  const auto report = [&](const std::string& name, const reference::Agreement& found) {
    if (!found.ok())
      text += fmt::format("{}: {} of {} elements outside; element {} is {} instead of {}, {} times its tolerance\n",
                          name, found.outside, found.elements, found.worst_index, found.worst_actual,
                          found.worst_expected, found.worst);
    if (tally != nullptr)
      tally->elements += found.elements, tally->without_claim += found.unclaimed;
    else if (found.unclaimed != 0)
      text += fmt::format("{}: no claim on {} elements\n", name, found.unclaimed);
  };
  for (const auto& [name, values] : expected)
    report(name, reference::compare(values, o.c.contraction(), tensor(name, shape_mn(o.c.contraction()))));
  return text;
}

std::string Testbed::check(const Executable& executable) {
  std::string problems;
  const Outcome outcome = run(executable, problems);
  problems += judge(outcome);
  return problems.empty() ? "" : problems + c_.describe() + "\n" + executable.describe();
}

}  // namespace unisono::gpu
