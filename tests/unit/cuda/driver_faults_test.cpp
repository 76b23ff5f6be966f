// Every call of the driver fails once in turn while a kernel, or a network, is built, bound and run.

#include "driver_faults.hpp"

#include "network_recorded.hpp"

namespace unisono::cuda {
namespace {

using DriverFaults = EachCallFails<CudaLaunch>;

TEST_F(DriverFaults, BuiltAndRun) {
  each_fails_once([&] { build_from({.registers = 168}).run(a); });
}

TEST_F(DriverFaults, BoundAndLaunched) {
  each_fails_once([&] {
    const Executable e = build_from({.registers = 168});
    const Launch launch = e.bind(a);
    launch.enqueue(nullptr);
    e.enqueue(a, nullptr);
    check(driver().cuStreamSynchronize(nullptr), "waiting");
  });
}

}  // namespace
}  // namespace unisono::cuda

namespace unisono::network::gpu {
namespace {

class NetworkDriverFaults : public cuda::EachCallFails<NetworkLaunches> {
 protected:
  // What was begun on a stream that a call failed on ends with the stream
  struct OwnStream {
    CUstream get = nullptr;
    OwnStream() { cuda::check(cuda::driver().cuStreamCreate(&get, CU_STREAM_DEFAULT), "making a stream"); }
    ~OwnStream() { cuda::driver().cuStreamDestroy_v2(get); }
  };
  struct OwnGraph {
    CUgraph get = nullptr;
    ~OwnGraph() {
      if (get != nullptr) cuda::driver().cuGraphDestroy(get);
    }
  };
  // Captures what `enqueue` puts on the stream; the capture ends whatever happens within
  static void capture(CUstream s, const std::function<void()>& enqueue) {
    cuda::check(cuda::driver().cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL), "beginning a capture");
    OwnGraph graph;
    try {
      enqueue();
    } catch (...) {
      cuda::driver().cuStreamEndCapture(s, &graph.get);
      throw;
    }
    cuda::check(cuda::driver().cuStreamEndCapture(s, &graph.get), "ending a capture");
  }
};

// The graph of its kernels is built, launched, handed other tensors, launched again and timed kernel by kernel
TEST_F(NetworkDriverFaults, BuiltAndReplayed) {
  void* const other = memory(24);
  each_fails_once([&] {
    const OwnStream s;
    const auto launch = bound();
    launch->enqueue(s.get);
    launch->rebind(launch->slot("y"), other);
    launch->enqueue(s.get);
    Workspace own(*plan, Workspace::Way::replayed);
    EXPECT_EQ(own.enqueue_timed(views, 1, s.get).size(), 3u);
    own.collect(views, 1, s.get);
  });
}

// Tensors of the host are copied to the GPU and back
TEST_F(NetworkDriverFaults, WithTensorsOfTheHost) {
  const std::vector<float> x(6, 1.0f);
  std::vector<float> y(6);
  const CallerViews host{{x.data(), DType::f32, {2, 3}, {3, 1}}, {y.data(), DType::f32, {2, 3}, {1, 2}}};
  each_fails_once([&] {
    const OwnStream s;
    Workspace own(*plan, Workspace::Way::replayed);
    own.enqueue(host, 1, s.get);
    own.collect(host, 1, s.get);
  });
}

TEST_F(NetworkDriverFaults, Captured) {
  each_fails_once([&] {
    const OwnStream s;
    const auto launch = bound();
    for (int i = 0; i < 2; ++i) capture(s.get, [&] { launch->enqueue(s.get); });
    launch->enqueue(s.get);
    CapturedRuns runs;
    capture(s.get, [&] {
      Workspace& run =
          runs.take(plan, s.get, [&] { return std::make_unique<Workspace>(*plan, Workspace::Way::recorded); });
      run.bind(views, 1);
      run.record(s.get);
    });
  });
}

// The caller gives the workspace; the launch owns nothing of it but the table of addresses
TEST_F(NetworkDriverFaults, InAWorkspaceOfTheCallers) {
  void* const room = memory(static_cast<std::int64_t>(plan->bytes));
  each_fails_once([&] {
    const OwnStream s;
    bound({.memory = room, .bytes = plan->bytes})->enqueue(s.get);
  });
}

}  // namespace
}  // namespace unisono::network::gpu
