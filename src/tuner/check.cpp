#include "tuner/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "passes/split_stores.hpp"
#include "plan/resampling.hpp"
#include "reference/reference.hpp"
#include "reference/resampled.hpp"
#include "runtime/cuda/stream.hpp"
#include "tuner/error_model.hpp"
#include "tuner/operands.hpp"
#include "unisono/tensor.hpp"

namespace unisono::tuner {
namespace {

bool are_apart(const Graph& graph, bool rows) {
  const bool nodes = std::ranges::all_of(graph.nodes, [&](const Node& x) {
    if (x.op == Op::index || x.op == Op::extent || x.op == Op::batch_norm) return false;
    const bool within_image = x.op == Op::instance_norm || x.op == Op::group_norm;
    if (rows) return !x.attr.domain.rows && !within_image;
    return !x.attr.domain.rows || x.attr.domain.per_image || within_image;
  });
  return nodes && std::ranges::all_of(graph.stores, [&](const Store& s) {
           const RowAxis row = graph[s.value].axes.row;
           return rows ? row == RowAxis::m : row != RowAxis::none;
         });
}

/// What a problem can be cut into: images, rows of a product, or nothing (one piece).
struct Pieces {
  const Contraction& whole;
  bool rows = false;       ///< pieces are rows of a product
  std::int64_t count = 1;  ///< 1: the whole

  Contraction some(std::int64_t n) const {
    Contraction c = whole;
    if (count == 1) return c;
    if (auto* g = std::get_if<Gemm>(&c)) (rows ? g->m : g->batch) = n;
    if (auto* v = std::get_if<Conv2d>(&c)) v->n = n;
    if (auto* t = std::get_if<ConvTranspose2d>(&c)) t->n = n;
    if (auto* v = std::get_if<Conv3d>(&c)) v->n = n;
    return c;
  }
  std::int64_t rows_each() const { return extents(whole).rows() / count; }
  /// Elements of a value with these axes that belong to one piece; 0: it does not vary with them.
  std::int64_t elements_each(const Axes& a) const {
    if (count == 1 || a.row == RowAxis::none || (rows && a.row == RowAxis::b)) return 0;
    return element_count(reference::shape_of(a, some(1)));
  }
};

Pieces pieces_of(const Problem& p) {
  const Extents e = extents(p.contraction);
  const auto* g = std::get_if<Gemm>(&p.contraction);
  if (g != nullptr && !g->group_rows.empty()) return {p.contraction, false, 1};
  if (g != nullptr && g->batch == 1 && rows_are_apart(p.graph)) return {p.contraction, true, e.rows()};
  if (images_are_apart(p.graph)) return {p.contraction, false, e.images};
  return {p.contraction, false, 1};
}

struct Range {
  std::int64_t first = 0, count = 0;
};

/// At both ends, with no more than so many elements where that can be.
std::vector<Range> ranges_of(const Pieces& pieces, std::int64_t most_elements) {
  const std::int64_t each = pieces.rows_each() * extents(pieces.whole).cols;
  const std::int64_t most = std::max<std::int64_t>(1, most_elements / each);
  if (most >= pieces.count) return {{0, pieces.count}};
  if (most == 1) return {{0, 1}};
  return {{0, most / 2}, {pieces.count - most / 2, most / 2}};
}

using Bytes = std::vector<std::byte>;

/// One range in the host's memory.
struct Sample {
  Contraction contraction;
  reference::Values acc;
  std::map<std::string, Bytes> memory;  ///< memory of the operands, by name
  std::map<std::string, Bytes> outputs;
  Arguments arguments;
};

struct Evidence {
  Graph graph;  ///< with whole stores only
  plan::Resampled resampled;
  std::string main;  ///< the store of which others are made
  reference::ErrorModel model;
  std::vector<Sample> samples;
  bool repeats = true;
};

/// One problem with its tensors on the GPU.
class Bench {
 public:
  Bench(const Problem& p, const DeviceKernels& kernels, int device_index, Stream stream)
      : p_(p), kernels_(kernels), device_index_(device_index), stream_(stream), pieces_(pieces_of(p)) {
    const Footprint bytes = footprint(p);
    inputs_ = std::make_unique<cuda::DeviceBuffer>(device_index, bytes.inputs, "operands to be checked with");
    outputs_ = std::make_unique<cuda::DeviceBuffer>(device_index, bytes.outputs, "outputs to be checked");
    arguments_ = arguments_at(p, static_cast<std::byte*>(inputs_->data()), static_cast<std::byte*>(outputs_->data()));
    fill();
  }

  void run(const Executable& executable) {
    kernels_.poison(outputs_->data(), outputs_->bytes(), stream_);
    executable.enqueue(arguments_, stream_);
    cuda::wait(device_index_, stream_);
  }

  Sample sample(const Range& r) {
    Sample s{.contraction = pieces_.some(r.count),
             .acc = accumulators(r),
             .memory = {},
             .outputs = outputs(r),
             .arguments = {}};
    s.arguments.scalars = arguments_.scalars;
    const auto take = [&](const std::string& name, const Axes& axes, const Pieces& pieces) {
      const auto found = arguments_.operands.find(name);
      if (found == arguments_.operands.end()) return;
      ConstTensorView view = found->second;
      s.memory[name] = elements(view, pieces.elements_each(axes), r);
      view.data = s.memory[name].data();
      view.shape = reference::shape_of(axes, pieces.some(r.count));
      s.arguments.operands[name] = view;
    };
    for (const Node* x : operands_of(p_.graph)) take(x->attr.name, x->axes, pieces_);
    return s;
  }

  std::map<std::string, Bytes> outputs(const Range& r) {
    std::map<std::string, Bytes> all;
    for (const Store& s : p_.graph.stores) {
      const TensorView& view = arguments_.outputs.at(s.name);
      all[s.name] = s.form == StoreForm::whole ? part(view, p_.graph[s.value].axes, r) : images(view, r);
    }
    return all;
  }
  const Pieces& pieces() const { return pieces_; }

 private:
  void fill() {
    const double unit = 1 / std::sqrt(static_cast<double>(depth(p_.contraction)));
    std::uint64_t seed = 1;
    const auto random = [&](const ConstTensorView& v, double mean, double deviation) {
      kernels_.fill(const_cast<void*>(v.data), v.dtype, element_count(v.shape), mean, deviation, seed++, stream_);
    };
    random(arguments_.a(p_.contraction), 0, 1);
    random(arguments_.b(p_.contraction), 0, unit);
    for (const auto& [name, view] : arguments_.operands) random(view, 0.25, 0.5);
  }

  /// What of a tensor belongs to a range: all of it if it does not vary with pieces.
  Bytes part(const ConstTensorView& view, const Axes& a, const Range& r) {
    return elements(view, pieces_.elements_each(a), r);
  }
  /// The same of images of another size than the contraction's.
  Bytes images(const ConstTensorView& view, const Range& r) {
    return elements(view, pieces_.count == 1 ? 0 : element_count(view.shape) / pieces_.count, r);
  }
  Bytes elements(const ConstTensorView& view, std::int64_t each, const Range& r) {
    const std::int64_t first = each * r.first, count = each == 0 ? element_count(view.shape) : each * r.count;
    Bytes bytes(static_cast<std::size_t>(count) * size_of(view.dtype));
    cuda::copy(device_index_, bytes.data(),
               static_cast<const std::byte*>(view.data) + static_cast<std::size_t>(first) * size_of(view.dtype),
               bytes.size(), stream_);
    cuda::wait(device_index_, stream_);
    return bytes;
  }

  reference::Values accumulators(const Range& r) {
    const std::int64_t rows = pieces_.rows_each() * r.count;
    const auto count = static_cast<std::size_t>(rows * extents(p_.contraction).cols);
    const cuda::DeviceBuffer memory(device_index_, 16 * count, "accumulators in float64");
    auto* const sum = static_cast<double*>(memory.data());
    kernels_.sums(p_.contraction, arguments_.a(p_.contraction).data, arguments_.b(p_.contraction).data,
                  pieces_.rows_each() * r.first, rows, sum, sum + count, stream_);
    reference::Values acc{.axes = axes::mn, .value = std::vector<double>(count), .bound = std::vector<double>(count)};
    cuda::copy(device_index_, acc.value.data(), sum, 8 * count, stream_);
    cuda::copy(device_index_, acc.bound.data(), sum + count, 8 * count, stream_);
    cuda::wait(device_index_, stream_);
    const double error = accumulator_error(p_.contraction);
    for (double& b : acc.bound) b *= error;
    return acc;
  }

  const Problem& p_;
  const DeviceKernels& kernels_;
  int device_index_;
  Stream stream_;
  Pieces pieces_;
  std::unique_ptr<cuda::DeviceBuffer> inputs_, outputs_;
  Arguments arguments_;
};

/// Counts what is made of the main store, and is none of its elements, as outside.
void judge_resampled(const Evidence& e, const Sample& sample, const ConstTensorView& store, Verdict& verdict) {
  const auto judge_one = [&](const std::string& name, std::vector<std::int64_t> shape) {
    if (name.empty()) return;
    const ConstTensorView made{sample.outputs.at(name).data(), store.dtype, std::move(shape), {}};
    verdict.outside += reference::first_other(store, made) ? 1 : 0;
    verdict.elements += element_count(made.shape);
  };
  judge_one(e.resampled.pooled, reference::pooled_shape(store.shape));
  judge_one(e.resampled.upsampled, reference::upsampled_shape(store.shape));
}

/// The main store where it is written upsampled only.
Bytes shrunk_store(const Evidence& e, const Sample& sample, DType type, const std::vector<std::int64_t>& shape) {
  return reference::shrunk(
      {sample.outputs.at(e.resampled.upsampled).data(), type, reference::upsampled_shape(shape), {}});
}

Verdict judge(const Evidence& e) {
  Verdict verdict;
  verdict.repeats = e.repeats;
  for (const Sample& sample : e.samples) {
    const auto expected = reference::evaluate(e.graph, sample.contraction, sample.acc, sample.arguments, e.model);
    for (const Store& s : e.graph.stores) {
      const auto shape = reference::shape_of(e.graph[s.value].axes, sample.contraction);
      const auto found_store = sample.outputs.find(s.name);
      Bytes alone;
      if (found_store == sample.outputs.end()) alone = shrunk_store(e, sample, s.dtype, shape);
      const Bytes& stored = found_store == sample.outputs.end() ? alone : found_store->second;
      const ConstTensorView actual{stored.data(), s.dtype, shape, {}};
      if (s.name == e.main) judge_resampled(e, sample, actual, verdict);
      const reference::Agreement found = reference::compare(expected.at(s.name), sample.contraction, actual);
      verdict.elements += found.elements, verdict.outside += found.outside, verdict.unclaimed += found.unclaimed;
      verdict.worst = std::max(verdict.worst, found.worst);
    }
  }
  return verdict;
}

}  // namespace

bool images_are_apart(const Graph& graph) { return are_apart(graph, false); }
bool rows_are_apart(const Graph& graph) { return are_apart(graph, true); }

std::string to_string(const Verdict& v) {
  std::string text = fmt::format("{} of {} elements are outside of their tolerances", v.outside, v.elements);
  if (v.outside > 0) text += fmt::format(", the worst by a factor of {:.3g}", v.worst);
  if (v.unclaimed > 0) text += fmt::format("; {} have none", v.unclaimed);
  return v.repeats ? text : text + "; a second run gave other bits";
}

std::function<Verdict()> start_check(const Problem& problem, const Executable& executable,
                                     const families::Plan::Numerics& numerics, const DeviceKernels& kernels,
                                     int device_index, Stream stream, std::int64_t most_elements) {
  Bench bench(problem, kernels, device_index, stream);
  auto e = std::make_shared<Evidence>();
  e->graph = passes::split_stores(problem.graph).graph;
  e->resampled = problem.epilogue().resampled;
  if (e->resampled.any()) e->main = problem.epilogue().graph.stores[*plan::main_store(problem.epilogue())].name;
  e->model = error_model(problem.contraction, e->graph, problem.options.accurate, numerics);
  const std::vector<Range> ranges = ranges_of(bench.pieces(), most_elements);
  e->samples.reserve(ranges.size());  // a sample's arguments point into it
  bench.run(executable);
  for (const Range& r : ranges) e->samples.push_back(bench.sample(r));
  bench.run(executable);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    e->repeats = e->repeats && e->samples[i].outputs == bench.outputs(ranges[i]);
  return [e = std::shared_ptr<const Evidence>(e)] { return judge(*e); };
}

}  // namespace unisono::tuner
