#include "bench/verify.hpp"

#include <algorithm>
#include <future>
#include <mutex>
#include <thread>

#include "gpu/error_model.hpp"
#include "gpu/kernels.hpp"
#include "reference/reference.hpp"
#include "support/dtypes.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

namespace {

using Bytes = std::map<std::string, std::vector<std::byte>>;

/// Everything that a judgement needs, in the host's memory.
struct Evidence {
  Contraction contraction = Conv2d{};
  Graph graph;
  reference::ErrorModel model;
  reference::Values acc, acc1;  // acc1: of a dual product
  Bytes operands, outputs;
  Arguments arguments;
  bool repeats = true;

  // What is judged piece by piece: images, or of a product rows
  bool is_product() const { return std::holds_alternative<Gemm>(contraction); }
  std::int64_t pieces() const { return is_product() ? std::get<Gemm>(contraction).m : extents(contraction).images; }
  Contraction some(std::int64_t count) const {
    Contraction part = contraction;
    if (auto* product = std::get_if<Gemm>(&part)) product->m = count;
    if (auto* conv = std::get_if<Conv2d>(&part)) conv->n = count;
    if (auto* transposed = std::get_if<ConvTranspose2d>(&part)) transposed->n = count;
    return part;
  }
};

// Nothing is said about what scratch holds
Bytes run(const Executable& executable, const Data& data, const Case& c) {
  data.poison();
  executable.enqueue(data.arguments(), nullptr);
  gpu::wait(nullptr, c.name);
  Bytes outputs;
  for (const Store& s : c.graph.stores) outputs[s.name] = data.output(s.name);
  return outputs;
}

reference::Values accumulator(const Contraction& contraction, const Data& data, const char* filter) {
  const auto count = static_cast<std::size_t>(element_count(shape_mn(contraction)));
  const gpu::Buffer sum(count * 8), absolute(count * 8);
  const CUdeviceptr a = data.buffer("a").address(), b = data.buffer(filter).address();
  const auto* conv = std::get_if<Conv2d>(&contraction);
  if (conv != nullptr && conv->layout == Layout::nhwc && conv->groups == 1 && conv->c % 8 == 0 && conv->k % 8 == 0 &&
      support::is_short_float(conv->dtype_x))
    gpu::launch("unisono_reference", count / 8, nullptr, gpu::shape_of(*conv), a, b, sum.address(), absolute.address());
  else
    gpu::launch("unisono_reference_general", count, nullptr, gpu::general_of(contraction), a, b, sum.address(),
                absolute.address());
  gpu::wait(nullptr, "the reference of " + to_string(contraction), 120);
  reference::Values acc{.axes = axes::mn, .value = std::vector<double>(count), .bound = std::vector<double>(count)};
  sum.download(acc.value.data());
  absolute.download(acc.bound.data());
  const double error = gpu::accumulator_error(contraction);
  for (double& bound : acc.bound) bound *= error;
  return acc;
}

// The part of a tensor that belongs to `count` pieces from `first` on; all of it if it does not vary with them. `shape`
// is what these pieces have together, `of_one` what one has.
ConstTensorView part(const Evidence& e, const void* data, DType dtype, const Axes& a,
                     const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& of_one,
                     std::int64_t first) {
  ConstTensorView view{data, dtype, shape, {}};
  if (a.row == RowAxis::none || (e.is_product() && a.row == RowAxis::b)) return view;
  const std::int64_t from = element_count(of_one) * first;
  view.data = static_cast<const std::byte*>(data) + static_cast<std::size_t>(from) * size_of(dtype);
  return view;
}

void merge(Verdict& into, const reference::Agreement& found) {
  into.elements += found.elements, into.outside += found.outside, into.unclaimed += found.unclaimed;
  into.largest_error = std::max(into.largest_error, found.largest_error);
  if (found.worst <= into.worst) return;
  into.worst = found.worst;
  into.error = std::abs(found.worst_actual - found.worst_expected);
  into.tolerance = into.error / found.worst;
}

Verdict judge_pieces(const Evidence& e, std::int64_t first, std::int64_t count) {
  const Contraction some = e.some(count);
  const auto elements = static_cast<std::size_t>(element_count(shape_mn(some)));
  const auto from = static_cast<std::ptrdiff_t>(elements / static_cast<std::size_t>(count)) * first;
  const auto to = from + static_cast<std::ptrdiff_t>(elements);
  const auto part_of = [&](const reference::Values& all) {
    if (all.value.empty()) return reference::Values{};
    return reference::Values{.axes = axes::mn,
                             .value = {all.value.begin() + from, all.value.begin() + to},
                             .bound = {all.bound.begin() + from, all.bound.begin() + to}};
  };
  const reference::Values acc = part_of(e.acc), acc1 = part_of(e.acc1);
  Arguments arguments = e.arguments;
  const Contraction one = e.some(1);
  const auto operands = operand_tensors(e.graph, some), of_one = operand_tensors(e.graph, one);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const OperandTensor& x = operands[i];
    ConstTensorView& view = arguments.operands.at(x.name);
    view = part(e, view.data, x.dtype, x.axes, x.shape, of_one[i].shape, first);
  }
  Verdict verdict;
  const auto expected = reference::evaluate(e.graph, some, acc, acc1, arguments, e.model);
  for (const Store& s : e.graph.stores) {
    const auto shape = reference::shape_of(e.graph, s, some);
    const ConstTensorView actual = part(e, e.outputs.at(s.name).data(), s.dtype, e.graph[s.value].axes, shape,
                                        reference::shape_of(e.graph, s, one), first);
    merge(verdict, reference::compare(expected.at(s.name), s, some, actual));
  }
  return verdict;
}

void merge(Verdict& into, const Verdict& other) {
  into.elements += other.elements, into.outside += other.outside, into.unclaimed += other.unclaimed;
  into.largest_error = std::max(into.largest_error, other.largest_error);
  if (other.worst <= into.worst) return;
  into.worst = other.worst, into.error = other.error, into.tolerance = other.tolerance;
}

Verdict judge(const Evidence& e) {
  Verdict verdict;
  if (!(e.is_product() ? rows_are_apart(e.graph) : images_are_apart(e.graph))) {
    verdict = judge_pieces(e, 0, e.pieces());
  } else {
    std::atomic<std::int64_t> next{0};
    std::mutex mutex;
    std::vector<std::future<void>> workers;
    const std::int64_t pieces = e.pieces(), run = e.is_product() ? 64 : 1;
    const auto threads = std::min<std::int64_t>(pieces, std::max(1u, std::thread::hardware_concurrency()));
    for (std::int64_t t = 0; t < threads; ++t)
      workers.push_back(std::async(std::launch::async, [&] {
        for (std::int64_t first; (first = next.fetch_add(run)) < pieces;) {
          const Verdict one = judge_pieces(e, first, std::min(run, pieces - first));
          const std::lock_guard lock(mutex);
          merge(verdict, one);
        }
      }));
    for (auto& w : workers) w.wait();
    for (auto& w : workers) w.get();
  }
  verdict.repeats = e.repeats;
  return verdict;
}

}  // namespace

namespace {

bool are_apart(const Graph& graph, bool rows) {
  const bool nodes = std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& x) {
    if (x.op == Op::index || x.op == Op::extent || x.op == Op::batch_norm) return false;
    const bool within_image = x.op == Op::instance_norm || x.op == Op::group_norm;
    if (rows) return !x.attr.domain.rows && !within_image;
    return !x.attr.domain.rows || x.attr.domain.per_image || within_image;
  });
  return nodes && std::all_of(graph.stores.begin(), graph.stores.end(), [&](const Store& s) {
           const RowAxis row = graph[s.value].axes.row;
           return rows ? row == RowAxis::m : row != RowAxis::none;
         });
}

}  // namespace

bool images_are_apart(const Graph& graph) { return are_apart(graph, false); }
bool rows_are_apart(const Graph& graph) { return are_apart(graph, true); }

std::function<Verdict()> start_verifying(const Case& c, const Executable& executable, const Data& data,
                                         const families::Plan::Numerics& numerics) {
  if (c.volume) throw Unsupported("volumes are compared with float64 by unisono_gpu_tests; give --no-verify");
  auto e = std::make_shared<Evidence>();
  // A product as the kernels compute it
  const Contraction computed = c.product ? Contraction(c.conv) : c.contraction();
  e->contraction = c.contraction(), e->graph = c.graph;
  e->model = gpu::error_model(computed, c.graph, false, numerics);
  e->outputs = run(executable, data, c);
  e->repeats = e->outputs == run(executable, data, c);
  e->acc = accumulator(computed, data, "b");
  if (product_count(c.contraction()) == 2) e->acc1 = accumulator(computed, data, "b1");
  e->arguments = data.on_host(e->operands);
  return [e = std::shared_ptr<const Evidence>(e)] { return judge(*e); };
}

}  // namespace unisono::bench
