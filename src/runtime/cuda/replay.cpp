#include "runtime/cuda/replay.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/cuda/capture.hpp"
#include "runtime/cuda/gpu.hpp"
#include "runtime/cuda/graph.hpp"
#include "runtime/cuda/range.hpp"
#include "support/environment.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

struct Replay::Impl {
  const Gpu& gpu;
  std::vector<Launch> launches;
  std::vector<std::string> names;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;

  Impl(const Gpu& g, std::vector<Launch> all, std::vector<std::string> called)
      : gpu(g), launches(std::move(all)), names(std::move(called)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    const Leaving leaving(gpu);
    if (!leaving) return;
    const BesideCapture beside;
    if (executable != nullptr) driver().cuGraphExecDestroy(executable);
    if (graph != nullptr) driver().cuGraphDestroy(graph);
  }
};

GraphBy graph_by() {
  const std::string given = support::graph_way();
  if (given.empty()) return has_edges_with_data() ? GraphBy::nodes : GraphBy::capture;
  if (given == "capture") return GraphBy::capture;
  if (given == "line") return GraphBy::line;
  if (given == "nodes") return GraphBy::nodes;
  throw UserError(fmt::format("UNISONO_GRAPH is '{}'; expected nodes, line or capture", given));
}

namespace {

LaunchOrder in_line(std::size_t launches) {
  LaunchOrder after(launches);
  for (std::size_t i = 1; i < launches; ++i) after[i] = {i - 1};
  return after;
}

void check_order(const LaunchOrder& after, std::size_t launches) {
  if (after.size() != launches)
    throw InternalError(fmt::format("an order of {} for {} launches", after.size(), launches));
  for (std::size_t i = 0; i < launches; ++i)
    for (const std::size_t j : after[i])
      if (j >= i) throw InternalError(fmt::format("launch {} would wait for launch {}", i, j));
}

}  // namespace

Replay::Replay(int device_index, std::vector<Launch> launches, std::vector<std::string> names, GraphBy by,
               LaunchOrder after)
    : impl_(std::make_unique<Impl>(gpu(device_index), std::move(launches), std::move(names))) {
  const Current current(impl_->gpu);
  const std::size_t count = impl_->launches.size();
  if (by == GraphBy::line || after.empty()) after = in_line(count);
  check_order(after, count);
  impl_->graph = by == GraphBy::capture ? captured_graph(impl_->gpu, impl_->launches)
                                        : graph_of_nodes(impl_->gpu, impl_->launches, after);
  check(driver().cuGraphInstantiateWithFlags(&impl_->executable, impl_->graph, 0), "making a graph of a network");
}

Replay::~Replay() = default;

void Replay::enqueue(Stream stream) const {
  const Current current(impl_->gpu);
  check(driver().cuGraphLaunch(impl_->executable, static_cast<CUstream>(stream)), "replaying a network's graph");
}

void Replay::copy_ahead(void* to, const void* from, std::size_t bytes, Stream stream) const {
  const Current current(impl_->gpu);
  check(driver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                               static_cast<CUstream>(stream)),
        "copying before a network");
}

bool Replay::is_captured(Stream stream) const {
  const Current current(impl_->gpu);
  return is_capturing(static_cast<CUstream>(stream));
}

std::string Replay::describe() const {
  const Current current(impl_->gpu);
  return cuda::describe(impl_->graph);
}

std::size_t Replay::kernel_nodes() const {
  std::size_t count = 0;
  check(driver().cuGraphGetNodes(impl_->graph, nullptr, &count), "counting a graph's nodes");
  std::vector<CUgraphNode> nodes(count);
  check(driver().cuGraphGetNodes(impl_->graph, nodes.data(), &count), "reading a graph's nodes");
  std::size_t kernels = 0;
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    check(driver().cuGraphNodeGetType(node, &type), "asking for a node's type");
    kernels += type == CU_GRAPH_NODE_TYPE_KERNEL ? 1 : 0;
  }
  return kernels;
}

namespace {

class Events {
 public:
  explicit Events(std::size_t count) : Events() {  // constructed from here on: if one cannot be made, the others go
    events_.resize(count);
    for (CUevent& e : events_) check(driver().cuEventCreate(&e, CU_EVENT_DEFAULT), "making an event");
  }
  ~Events() {
    for (CUevent e : events_)
      if (e != nullptr) driver().cuEventDestroy_v2(e);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  void record(std::size_t i, CUstream stream) {
    check(driver().cuEventRecord(events_[i], stream), "recording an event");
  }
  double milliseconds(std::size_t from, std::size_t to) const {
    float time = 0;
    check(driver().cuEventElapsedTime(&time, events_[from], events_[to]), "reading an event");
    return static_cast<double>(time);
  }

 private:
  Events() = default;

  std::vector<CUevent> events_;
};

}  // namespace

std::vector<double> Replay::times(Stream stream, int count) const {
  const Current current(impl_->gpu);
  auto* const s = static_cast<CUstream>(stream);
  const auto launches = static_cast<std::size_t>(count);
  Events events(launches + 1);
  enqueue(stream);
  events.record(0, s);
  for (std::size_t i = 0; i < launches; ++i) {
    enqueue(stream);
    events.record(i + 1, s);
  }
  check(driver().cuStreamSynchronize(s), "timing a graph");
  std::vector<double> times;
  for (std::size_t i = 0; i < launches; ++i) times.push_back(events.milliseconds(i, i + 1));
  return times;
}

std::vector<double> Replay::time_each(Stream stream) const {
  const Current current(impl_->gpu);
  auto* const s = static_cast<CUstream>(stream);
  Events events(impl_->launches.size() + 1);
  events.record(0, s);
  for (std::size_t i = 0; i < impl_->launches.size(); ++i) {
    const NamedRange range(i < impl_->names.size() ? impl_->names[i].c_str() : "unisono: a launch");
    impl_->launches[i].enqueue(s);
    events.record(i + 1, s);
  }
  check(driver().cuStreamSynchronize(s), "timing a network's kernels");
  std::vector<double> times;
  for (std::size_t i = 0; i < impl_->launches.size(); ++i) times.push_back(events.milliseconds(i, i + 1));
  return times;
}

}  // namespace unisono::cuda
