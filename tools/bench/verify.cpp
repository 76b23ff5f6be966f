#include "bench/verify.hpp"

#include <algorithm>
#include <future>
#include <mutex>
#include <thread>

#include "gpu/error_model.hpp"
#include "gpu/kernels.hpp"
#include "reference/reference.hpp"

namespace coda::bench {

namespace {

using Bytes = std::map<std::string, std::vector<std::byte>>;

/// Everything that a judgement needs, in the host's memory.
struct Evidence {
  Conv2d conv;
  Graph graph;
  reference::ErrorModel model;
  reference::Values acc;
  Bytes operands, outputs;
  Arguments arguments;
  bool repeats = true;
};

Bytes run(const Executable& executable, const Data& data, const std::string& what) {
  data.poison();
  executable.enqueue(data.arguments(), nullptr);
  gpu::wait(nullptr, what);
  Bytes outputs;
  for (const auto& [name, view] : data.arguments().outputs) outputs[name] = data.output(name);
  return outputs;
}

reference::Values accumulator(const Conv2d& conv, const Data& data) {
  const auto count = static_cast<std::size_t>(element_count(shape_mn(Contraction(conv))));
  const gpu::Buffer sum(count * 8), absolute(count * 8);
  gpu::launch("coda_reference", count / 8, nullptr, gpu::shape_of(conv), data.buffer("a").address(),
              data.buffer("b").address(), sum.address(), absolute.address());
  gpu::wait(nullptr, "the reference of " + to_string(Contraction(conv)), 120);
  reference::Values acc{.axes = axes::mn, .value = std::vector<double>(count), .bound = std::vector<double>(count)};
  sum.download(acc.value.data());
  absolute.download(acc.bound.data());
  const double error = gpu::accumulator_error(conv);
  for (double& b : acc.bound) b *= error;
  return acc;
}

// The part of a tensor that belongs to some images; all of it if it does not vary with them.
ConstTensorView part(const void* data, DType dtype, const Axes& a, const Conv2d& all, const Conv2d& some,
                     std::int64_t image) {
  ConstTensorView view{data, dtype, reference::shape_of(a, Contraction(some)), {}};
  if (a.row == RowAxis::none) return view;
  const std::int64_t each = elements_of(a, Contraction(all)) / all.n;
  view.data = static_cast<const std::byte*>(data) + static_cast<std::size_t>(each * image) * size_of(dtype);
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

// `count` images from `first` on
Verdict judge_images(const Evidence& e, std::int64_t first, std::int64_t count) {
  Conv2d some = e.conv;
  some.n = count;
  const auto elements = static_cast<std::size_t>(element_count(shape_mn(Contraction(some))));
  const auto from = static_cast<std::ptrdiff_t>(elements / static_cast<std::size_t>(count)) * first;
  const auto to = from + static_cast<std::ptrdiff_t>(elements);
  const reference::Values acc{.axes = axes::mn,
                              .value = {e.acc.value.begin() + from, e.acc.value.begin() + to},
                              .bound = {e.acc.bound.begin() + from, e.acc.bound.begin() + to}};
  Arguments arguments = e.arguments;
  for (const Node* x : tensor_operands(e.graph)) {
    ConstTensorView& view = arguments.operands.at(x->attr.name);
    view = part(view.data, view.dtype, x->axes, e.conv, some, first);
  }
  Verdict verdict;
  const auto expected = reference::evaluate(e.graph, some, acc, arguments, e.model);
  for (const Store& s : e.graph.stores)
    merge(verdict,
          reference::compare(expected.at(s.name), some,
                             part(e.outputs.at(s.name).data(), s.dtype, e.graph[s.value].axes, e.conv, some, first)));
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
  if (!images_are_apart(e.graph)) {
    verdict = judge_images(e, 0, e.conv.n);
  } else {
    std::atomic<std::int64_t> next{0};
    std::mutex mutex;
    std::vector<std::future<void>> workers;
    const auto threads = std::min<std::int64_t>(e.conv.n, std::max(1u, std::thread::hardware_concurrency()));
    for (std::int64_t t = 0; t < threads; ++t)
      workers.push_back(std::async(std::launch::async, [&] {
        for (std::int64_t image; (image = next++) < e.conv.n;) {
          const Verdict one = judge_images(e, image, 1);
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

bool images_are_apart(const Graph& graph) {
  const bool nodes = std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& x) {
    if (x.op == Op::index || x.op == Op::extent || x.op == Op::batch_norm) return false;
    return !x.attr.domain.rows || x.attr.domain.per_image || x.op == Op::instance_norm || x.op == Op::group_norm;
  });
  return nodes && std::all_of(graph.stores.begin(), graph.stores.end(),
                              [&](const Store& s) { return graph[s.value].axes.row != RowAxis::none; });
}

std::function<Verdict()> start_verifying(const Case& c, const Executable& executable, const Data& data,
                                         const plan::ConvConfig& config) {
  auto e = std::make_shared<Evidence>();
  e->conv = c.conv, e->graph = c.graph;
  e->model = gpu::error_model(c.conv, c.graph, false, config);
  e->outputs = run(executable, data, c.name);
  e->repeats = e->outputs == run(executable, data, c.name);
  e->acc = accumulator(c.conv, data);
  e->arguments = data.on_host(e->operands);
  return [e = std::shared_ptr<const Evidence>(e)] { return judge(*e); };
}

}  // namespace coda::bench
