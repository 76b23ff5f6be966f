// Every call of the driver fails once in turn while a kernel is built, bound and run: an error each time, nothing left,
// and the next time all is well.

#include <set>

#include "recorded.hpp"
#include "runtime/cuda/gpu.hpp"

namespace unisono::cuda {
namespace {

Driver real;
int calls = 0, failing = -1;  // the call that fails, from 0
std::string failed;

template <auto Member>
struct Counted;
template <class... A, CUresult (*Driver::*Member)(A...)>
struct Counted<Member> {
  static const char* name;
  static CUresult call(A... a) {
    if (calls++ != failing) return (real.*Member)(a...);
    failed = name;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
};
template <class... A, CUresult (*Driver::*Member)(A...)>
const char* Counted<Member>::name = "";

// What names an error, and what gives back: a memory that cannot be freed is lost whatever one does
const std::set<std::string>& left_alone() {
  static const std::set<std::string> names{
      "cuGetErrorName", "cuGetErrorString", "cuMemFree",           "cuModuleUnload",     "cuStreamDestroy",
      "cuEventDestroy", "cuGraphDestroy",   "cuUserObjectRelease", "cuGraphExecDestroy", "cuCtxPopCurrent"};
  return names;
}

// What comes before that, too: without a context, or an end of what still runs, memory and modules stay where they are
const std::set<std::string>& ways_back() {
  static const std::set<std::string> names{"cuDevicePrimaryCtxGetState", "cuCtxGetId", "cuCtxPushCurrent",
                                           "cuCtxSynchronize", "cuThreadExchangeStreamCaptureMode"};
  return names;
}

// While one lives, calls of the driver are counted
class Counting {
 public:
  explicit Counting(int fails) {
    real = driver();
    Driver& d = const_cast<Driver&>(driver());  // the table of the process, which the tests' driver has filled
#define UNISONO_COUNT(function)                     \
  if (!left_alone().contains(#function)) {          \
    d.function = &Counted<&Driver::function>::call; \
    Counted<& Driver::function>::name = #function;  \
  }
    UNISONO_DRIVER_FUNCTIONS(UNISONO_COUNT)
#undef UNISONO_COUNT
    calls = 0, failing = fails, failed.clear();
  }
  ~Counting() {
    const_cast<Driver&>(driver()) = real;
    failing = -1;
  }
};

class DriverFaults : public CudaLaunch {
 protected:
  // Whether it ended without an error
  template <class F>
  bool ends_well(int fails, F&& cycle) {
    const Counting counting(fails);
    try {
      cycle();
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(dynamic_cast<const InternalError*>(&error), nullptr) << failed << ": " << error.what();
      return false;
    }
  }

  // What a failure on the way back has left; of workspaces of streams, which stay, none is new
  void take_back(const std::map<CUdeviceptr, std::size_t>& memory, const std::map<CUmodule, int>& modules) {
    const Current current(gpu(0));
    const auto now = state.memory;
    for (const auto& [address, bytes] : now)
      if (!memory.contains(address)) driver().cuMemFree(address);
    const auto loaded = state.modules;
    for (const auto& [module, number] : loaded)
      if (!modules.contains(module)) driver().cuModuleUnload(module);
  }

  template <class F>
  void each_fails_once(F&& cycle) {
    executable.reset();
    ASSERT_TRUE(ends_well(-1, cycle));  // workspaces of streams stay
    ASSERT_TRUE(ends_well(-1, cycle));
    const int count = calls;
    EXPECT_GT(count, 10);
    int errors = 0;
    for (int n = 0; n < count; ++n) {
      const auto memory = state.memory;
      const auto modules = state.modules;
      errors += ends_well(n, cycle) ? 0 : 1;
      const std::string what = failed;
      if (ways_back().contains(what)) {
        take_back(memory, modules);
      } else {
        EXPECT_EQ(state.memory.size(), memory.size()) << what << ", call " << n;
        EXPECT_EQ(state.modules.size(), modules.size()) << what << ", call " << n;
      }
      ASSERT_TRUE(ends_well(-1, cycle)) << "after " << what << ", call " << n;
    }
    EXPECT_GT(errors, count / 2);
  }
};

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
