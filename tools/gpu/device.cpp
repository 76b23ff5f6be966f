#include "gpu/device.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace unisono::gpu {

using cuda::check;
using cuda::driver;

namespace {
int index = 0;
}

void choose_device(int i) { index = i; }
int chosen_device() { return index; }

const cuda::Gpu& device() {
  const cuda::Gpu& g = cuda::gpu(index);
  static thread_local const cuda::Current current(g);  // for the rest of the thread's life
  return g;
}

void wait(CUstream stream, const std::string& what, double seconds, bool awake) {
  const auto start = std::chrono::steady_clock::now();
  for (int tries = 0;; ++tries) {
    const CUresult result = driver().cuStreamQuery(stream);
    if (result == CUDA_SUCCESS) return;
    if (result != CUDA_ERROR_NOT_READY) check(result, what);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (passed.count() > seconds) {
      std::fprintf(stderr, "\nHANG: after %.0f s still running: %s\n", seconds, what.c_str());
      std::fflush(stderr);
      std::_Exit(3);  // the driver would wait for the kernel
    }
    if (!awake && tries > 1000) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

Buffer::Buffer(std::size_t bytes) : bytes_(bytes), memory_(device(), bytes + 2 * guard_bytes, "a test's tensor") {
  poison();
  // Streams that do not block, as the tests' are, would else overtake it.
  check(driver().cuStreamSynchronize(nullptr), "poisoning a tensor");
}

void Buffer::poison(CUstream stream) {
  check(driver().cuMemsetD8Async(memory_.address(), 0xff, memory_.bytes(), stream), "poisoning a tensor");
}

void Buffer::upload(const void* source) {
  check(driver().cuMemcpy(address(), reinterpret_cast<CUdeviceptr>(source), bytes_), "uploading a tensor");
  check(driver().cuCtxSynchronize(), "uploading a tensor");  // from pageable memory it may still be on its way
}

void Buffer::download(void* target) const {
  check(driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(target), address(), bytes_), "downloading a tensor");
}

std::vector<std::byte> Buffer::contents() const {
  std::vector<std::byte> bytes(bytes_);
  download(bytes.data());
  return bytes;
}

bool Buffer::guards_hold() const {
  std::vector<std::byte> guards(2 * guard_bytes);
  check(driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(guards.data()), memory_.address(), guard_bytes),
        "reading guards");
  check(driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(guards.data() + guard_bytes), address() + bytes_, guard_bytes),
        "reading guards");
  return std::all_of(guards.begin(), guards.end(), [](std::byte b) { return b == std::byte{0xff}; });
}

TestStream::TestStream() {
  device();
  check(driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "making a stream");
}
TestStream::~TestStream() { driver().cuStreamDestroy_v2(stream_); }

TestGraph::TestGraph(CUstream stream, const std::function<void()>& enqueue, CUstreamCaptureMode mode,
                     std::size_t instances)
    : instances_(instances) {
  check(driver().cuStreamBeginCapture_v2(stream, mode), "beginning a capture");
  try {
    enqueue();
  } catch (...) {
    driver().cuStreamEndCapture(stream, &graph_);
    throw;
  }
  check(driver().cuStreamEndCapture(stream, &graph_), "ending a capture");
  for (CUgraphExec& x : instances_) check(driver().cuGraphInstantiateWithFlags(&x, graph_, 0), "making a graph");
}

TestGraph::~TestGraph() {
  for (CUgraphExec x : instances_) driver().cuGraphExecDestroy(x);
  driver().cuGraphDestroy(graph_);
}

void TestGraph::replay(CUstream stream, std::size_t instance) const {
  check(driver().cuGraphLaunch(instances_.at(instance), stream), "replaying a graph");
}

std::size_t TestGraph::nodes() const {
  std::size_t count = 0;
  check(driver().cuGraphGetNodes(graph_, nullptr, &count), "counting a graph's nodes");
  return count;
}

std::size_t TestGraph::kernel_nodes() const {
  std::size_t count = nodes();
  std::vector<CUgraphNode> all(count);
  check(driver().cuGraphGetNodes(graph_, all.data(), &count), "reading a graph's nodes");
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](CUgraphNode node) {
    CUgraphNodeType type{};
    check(driver().cuGraphNodeGetType(node, &type), "asking for a node's type");
    return type == CU_GRAPH_NODE_TYPE_KERNEL;
  }));
}

}  // namespace unisono::gpu
