// Kernels and networks are planned, built, bound and launched over the tests' own driver while each allocation of our
// own fails once in turn: an error each time, nothing is lost, of the driver's memory either, and the next time is
// well.

#include <algorithm>

#include "cycle.hpp"
#include "network_recorded.hpp"
#include "runtime/cuda/gpu.hpp"

namespace unisono::faults {
namespace {

// What a fixture does over the driver, again and again
template <class Fixture>
class OverTheDriver : public Fixture {
 protected:
  using Fixture::executable, Fixture::state;

  // `launches`: of kernels, and of graphs
  void each_allocation_fails(const std::function<void()>& work, std::size_t launches) {
    executable.reset();
    each_fails_once(Kind::allocation, [&] {
      state.calls.clear(), state.launches.clear();
      if (!is_as_before()) return false;
      work();
      return state.launches.size() + graph_launches() == launches;
    });
    EXPECT_TRUE(is_as_before());
  }

 private:
  std::size_t graph_launches() const {
    return static_cast<std::size_t>(std::count(state.calls.begin(), state.calls.end(), "launch a graph"));
  }
  // Workspaces of streams are made at the first times, and stay
  bool is_as_before() {
    const Held now{state.memory.size(), state.modules.size(), state.streams.size(), state.user_objects};
    if (rounds_++ < 2) held_ = now;
    return now == held_;
  }

  struct Held {
    std::size_t memory = 0, modules = 0, streams = 0;
    int user_objects = 0;
    bool operator==(const Held&) const = default;
  };
  Held held_;
  int rounds_ = 0;
};

using Kernels = OverTheDriver<cuda::CudaLaunch>;

TEST_F(Kernels, PlannedAndGenerated) {
  each_allocation_fails(
      [&] {
        const auto lowered = lower::lower(cuda::conv, parse(text), options, cuda::open_device(0)).value();
        if (lowered.kernel.source != kernel.kernel.source) throw InternalError("another kernel");
      },
      0);
}

TEST_F(Kernels, BuiltBoundAndLaunched) {
  each_allocation_fails(
      [&] {
        const Executable e = build_from({.registers = 168});
        e.bind(a).enqueue(nullptr);
        e.enqueue(a, nullptr);
        cuda::check(cuda::driver().cuStreamSynchronize(nullptr), "waiting");
      },
      2);
}

class Networks : public OverTheDriver<network::gpu::NetworkLaunches> {
 protected:
  struct OwnStream {
    CUstream get = nullptr;
    OwnStream() { cuda::check(cuda::driver().cuStreamCreate(&get, CU_STREAM_DEFAULT), "making a stream"); }
    ~OwnStream() { cuda::driver().cuStreamDestroy_v2(get); }
  };
};

TEST_F(Networks, BuiltAndLaunched) {
  void* const other = memory(24);
  each_allocation_fails(
      [&] {
        const OwnStream s;
        plan = make_plan();
        const auto launch = bound();
        launch->enqueue(s.get);
        launch->rebind(launch->slot("y"), other);
        launch->enqueue(s.get);
      },
      2);
}

TEST_F(Networks, WithTensorsOfTheHost) {
  const std::vector<float> x(6, 1.0f);
  std::vector<float> y(6);
  const network::gpu::CallerViews host{{x.data(), DType::f32, {2, 3}, {3, 1}}, {y.data(), DType::f32, {2, 3}, {1, 2}}};
  each_allocation_fails(
      [&] {
        const OwnStream s;
        network::gpu::Workspace own(*plan, network::gpu::Workspace::Way::replayed);
        own.enqueue(host, 1, s.get);
        own.collect(host, 1, s.get);
      },
      1);
}

TEST_F(Networks, Captured) {
  each_allocation_fails(
      [&] {
        const OwnStream s;
        const auto launch = bound();
        cuda::check(cuda::driver().cuStreamBeginCapture_v2(s.get, CU_STREAM_CAPTURE_MODE_GLOBAL),
                    "beginning a capture");
        CUgraph graph = nullptr;
        try {
          launch->enqueue(s.get);
        } catch (...) {
          cuda::driver().cuStreamEndCapture(s.get, &graph);
          if (graph != nullptr) cuda::driver().cuGraphDestroy(graph);
          throw;
        }
        cuda::check(cuda::driver().cuStreamEndCapture(s.get, &graph), "ending a capture");
        cuda::driver().cuGraphDestroy(graph);
      },
      3);
}

}  // namespace
}  // namespace unisono::faults
