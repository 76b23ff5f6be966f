#pragma once
/// Every call of the driver fails once in turn: an error each time, nothing left, and the next time all is well.

#include <set>
#include <string>
#include <vector>

#include "recorded.hpp"
#include "runtime/cuda/gpu.hpp"

// AddressSanitizer has these, in builds with it
extern "C" __attribute__((weak)) void __lsan_disable();
extern "C" __attribute__((weak)) void __lsan_enable();

namespace unisono::cuda {

// What the tests' driver allocates while one lives may be lost
class LeaksAllowed {
 public:
  explicit LeaksAllowed(bool allowed) : allowed_(allowed && __lsan_disable != nullptr) {
    if (allowed_) __lsan_disable();
  }
  ~LeaksAllowed() {
    if (allowed_) __lsan_enable();
  }
  LeaksAllowed(const LeaksAllowed&) = delete;
  LeaksAllowed& operator=(const LeaksAllowed&) = delete;

 private:
  bool allowed_;
};

inline Driver real;
inline int calls = 0, failing = -1;  // the call that fails, from 0
inline std::string failed;
inline std::vector<std::string> called;  // the names of the calls, in their order

template <auto Member>
struct Counted;
template <class... A, CUresult (*Driver::*Member)(A...)>
struct Counted<Member> {
  static const char* name;
  static CUresult call(A... a) {
    called.emplace_back(name);
    if (calls++ != failing) return (real.*Member)(a...);
    failed = name;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
};
template <class... A, CUresult (*Driver::*Member)(A...)>
const char* Counted<Member>::name = "";

// What names an error, and what gives back: a memory that cannot be freed is lost whatever one does
inline const std::set<std::string>& left_alone() {
  static const std::set<std::string> names{
      "cuGetErrorName",    "cuGetErrorString", "cuMemFree_v2",        "cuModuleUnload",     "cuStreamDestroy_v2",
      "cuEventDestroy_v2", "cuGraphDestroy",   "cuUserObjectRelease", "cuGraphExecDestroy", "cuCtxPopCurrent_v2"};
  return names;
}

// What comes before that, too: without a context, or an end of what still runs, memory and modules stay where they are
inline const std::set<std::string>& ways_back() {
  static const std::set<std::string> names{"cuDevicePrimaryCtxGetState", "cuCtxGetId", "cuCtxPushCurrent_v2",
                                           "cuCtxSynchronize", "cuThreadExchangeStreamCaptureMode"};
  return names;
}

// What is answered otherwise: a context that is not known to be current is made current, and memory that a driver knows
// nothing of is taken as the caller describes it
inline const std::set<std::string>& done_without() {
  static const std::set<std::string> names{"cuCtxGetCurrent", "cuPointerGetAttribute"};
  return names;
}

// While one lives, calls of the driver are counted
class CountedCalls {
 public:
  explicit CountedCalls(int fails) {
    real = driver();
    Driver& d = const_cast<Driver&>(driver());  // the table of the process, which the tests' driver has filled
#define UNISONO_COUNT(function, parameters)         \
  if (!left_alone().contains(#function)) {          \
    d.function = &Counted<&Driver::function>::call; \
    Counted<& Driver::function>::name = #function;  \
  }
    UNISONO_DRIVER_FUNCTIONS(UNISONO_COUNT)
#undef UNISONO_COUNT
    calls = 0, failing = fails, failed.clear(), called.clear();
  }
  ~CountedCalls() {
    const_cast<Driver&>(driver()) = real;
    failing = -1;
  }
};

// What a test does with a fixture, again and again, each time with another call failing
template <class Fixture>
class EachCallFails : public Fixture {
 protected:
  using Fixture::executable, Fixture::state;

  // Whether it ended without an error
  template <class F>
  bool ends_well(int fails, F&& cycle) {
    const CountedCalls counting(fails);
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
      if (!memory.contains(address)) driver().cuMemFree_v2(address);
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
    const std::vector<std::string> names = called;
    EXPECT_GT(count, 10);
    int errors = 0;
    for (int n = 0; n < count; ++n) {
      const auto memory = state.memory;
      const auto modules = state.modules;
      const bool well = [&] {
        const LeaksAllowed lost(ways_back().contains(names[static_cast<std::size_t>(n)]));
        return ends_well(n, cycle);
      }();
      const std::string what = failed;
      EXPECT_TRUE(!well || ways_back().contains(what) || done_without().contains(what)) << what << ", call " << n;
      errors += well ? 0 : 1;
      if (ways_back().contains(what)) {
        take_back(memory, modules);
      } else {
        EXPECT_EQ(state.memory.size(), memory.size()) << what << ", call " << n;
        EXPECT_EQ(state.modules.size(), modules.size()) << what << ", call " << n;
      }
      ASSERT_TRUE(ends_well(-1, cycle)) << "after " << what << ", call " << n;
    }
    EXPECT_GT(errors, 10);
  }
};

}  // namespace unisono::cuda
