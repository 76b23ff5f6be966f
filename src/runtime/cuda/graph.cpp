#include "runtime/cuda/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "runtime/cuda/stream.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

constexpr int most_tries = 16;  // how often a capture is tried

// Nothing if another thread has broken it, unless that is the last try
CUgraph try_to_capture(const Gpu& gpu, const std::function<void(CUstream)>& enqueue, bool last) {
  const OwnStream stream(gpu.index);
  auto* const s = static_cast<CUstream>(stream.get());
  check(driver().cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED), "beginning to capture a network");
  std::exception_ptr error;
  try {
    enqueue(s);
  } catch (...) {
    error = std::current_exception();
  }
  CUgraph graph = nullptr;
  const CUresult ended = driver().cuStreamEndCapture(s, &graph);
  if (ended == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && !last) return nullptr;
  if (error && graph != nullptr) driver().cuGraphDestroy(graph);
  if (error) std::rethrow_exception(error);
  check(ended, "capturing a network");
  return graph;
}

bool is_dependence(const CUlaunchAttribute& a) { return a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION; }

// What others enqueue, as one node
CUgraphNode add_captured(const Gpu& gpu, CUgraph graph, const NodeForm& form) {
  CUgraph child = captured_graph(gpu, form.captured);
  CUgraphNode node = nullptr;
  const CUresult added = driver().cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child);  // a copy
  driver().cuGraphDestroy(child);
  check(added, "adding a graph to a graph");
  return node;
}

CUgraphNode add_node(const Gpu& gpu, CUgraph graph, const NodeForm& form) {
  if (form.captured) return add_captured(gpu, graph, form);
  CUDA_KERNEL_NODE_PARAMS p{};
  void* parameters[] = {const_cast<void*>(form.parameters)};  // copied by the call
  p.func = form.function;
  p.gridDimX = form.ctas, p.gridDimY = p.gridDimZ = 1;
  p.blockDimX = form.threads, p.blockDimY = p.blockDimZ = 1;
  p.sharedMemBytes = form.shared_bytes;
  p.kernelParams = parameters;
  CUgraphNode node = nullptr;
  check(driver().cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &p), "adding a node to a graph");
  for (const CUlaunchAttribute& a : form.attributes)
    if (!is_dependence(a))
      check(driver().cuGraphKernelNodeSetAttribute(node, a.id, &a.value), "setting an attribute of a graph's node");
  return node;
}

// After the whole node ahead, or from when its CTAs have let the next one in
void add_edge(CUgraph graph, CUgraphNode from, CUgraphNode to, bool programmatic) {
  CUgraphEdgeData edge{};
  if (programmatic) {
    edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  check(driver().cuGraphAddDependencies_v2(graph, &from, &to, &edge, 1), "joining two nodes of a graph");
}

// Destroys a graph that is not finished
struct Unfinished {
  CUgraph graph = nullptr;
  ~Unfinished() {
    if (graph != nullptr) driver().cuGraphDestroy(graph);
  }
  CUgraph release() { return std::exchange(graph, nullptr); }
};

}  // namespace

thread_local Recording* Recording::current_ = nullptr;

Recording::Recording() { current_ = this; }
Recording::~Recording() { current_ = nullptr; }

CUgraph captured_graph(const Gpu& gpu, const std::function<void(CUstream)>& enqueue) {
  for (int tries = 1;; ++tries)
    if (CUgraph graph = try_to_capture(gpu, enqueue, tries == most_tries)) return graph;
}

CUgraph captured_graph(const Gpu& gpu, const std::vector<Launch>& launches) {
  return captured_graph(gpu, [&](CUstream stream) {
    for (const Launch& l : launches) l.enqueue(stream);
  });
}

bool has_edges_with_data() { return driver().cuGraphAddDependencies_v2 != nullptr; }

CUgraph graph_of_nodes(const Gpu& gpu, const std::vector<Launch>& launches, const LaunchOrder& after) {
  if (!has_edges_with_data())
    throw DeviceError("the CUDA driver makes no graphs with programmatic edges; CUDA 12.3 or later does: update it");
  Unfinished made;
  check(driver().cuGraphCreate(&made.graph, 0), "making a graph");
  const Recording recording;
  for (const Launch& l : launches) l.enqueue(nullptr);
  std::vector<CUgraphNode> nodes;
  for (const NodeForm& form : recording.forms()) {
    const std::vector<std::size_t>& ahead = after.at(nodes.size());
    nodes.push_back(add_node(gpu, made.graph, form));
    const bool programmatic = ahead.size() == 1 && !recording.forms()[ahead[0]].captured &&
                              std::ranges::any_of(form.attributes, is_dependence);
    for (const std::size_t i : ahead) add_edge(made.graph, nodes.at(i), nodes.back(), programmatic);
  }
  return made.release();
}

namespace {

std::string node_text(CUgraphNode node) {
  CUgraphNodeType type{};
  check(driver().cuGraphNodeGetType(node, &type), "asking for a node's type");
  if (type == CU_GRAPH_NODE_TYPE_GRAPH) return "a graph";
  CUDA_KERNEL_NODE_PARAMS p{};
  check(driver().cuGraphKernelNodeGetParams_v2(node, &p), "reading a graph's node");
  CUkernelNodeAttrValue cluster{}, cooperative{};
  check(driver().cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster),
        "reading a node");
  check(driver().cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative), "reading a node");
  return fmt::format("{} CTAs of {} threads, {} bytes, clusters of {}{}", p.gridDimX, p.blockDimX, p.sharedMemBytes,
                     std::max(1u, cluster.clusterDim.x), cooperative.cooperative != 0 ? ", cooperative" : "");
}

}  // namespace

std::string describe(CUgraph graph) {
  std::size_t count = 0, edges = 0;
  check(driver().cuGraphGetNodes(graph, nullptr, &count), "counting a graph's nodes");
  check(driver().cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &edges), "counting a graph's edges");
  std::vector<CUgraphNode> nodes(count), from(edges), to(edges);
  std::vector<CUgraphEdgeData> data(edges);
  check(driver().cuGraphGetNodes(graph, nodes.data(), &count), "reading a graph's nodes");
  check(driver().cuGraphGetEdges_v2(graph, from.data(), to.data(), data.data(), &edges), "reading a graph's edges");
  std::map<CUgraphNode, std::size_t> line;  // where a node stands in the text
  std::string text;
  while (line.size() < count) {
    const std::size_t before = line.size();
    for (CUgraphNode node : nodes) {
      std::string waits;
      bool ready = !line.contains(node);
      for (std::size_t i = 0; ready && i < edges; ++i) {
        if (to[i] != node) continue;
        ready = line.contains(from[i]);
        if (!ready) break;
        const std::size_t at = line.at(from[i]);
        waits += fmt::format("; {}port {} type {}", at + 1 == line.size() ? "" : fmt::format("after line {}, ", at + 1),
                             data[i].from_port, data[i].type);
      }
      if (!ready) continue;
      line.emplace(node, line.size());
      text += node_text(node) + waits + '\n';
    }
    if (line.size() == before) throw InternalError("a graph with a cycle");
  }
  return text;
}

}  // namespace unisono::cuda
