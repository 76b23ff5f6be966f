// The path of a launch allocates nothing. Calls of operator new from this program's own code are counted; those of the
// tests' driver, which writes everything down, are not.

#include <cstdlib>
#include <new>

#include "network_recorded.hpp"
#include "support/own_text.hpp"

namespace {

thread_local bool is_counting = false;
thread_local long allocations = 0;

void* take(std::size_t size, const void* caller) {
  if (is_counting && unisono::test::is_own_code(caller)) ++allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return take(size, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return take(size, __builtin_return_address(0)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace unisono {
namespace {

template <class Call>
long allocations_of(const Call& call) {
  allocations = 0, is_counting = true;
  call();
  is_counting = false;
  return allocations;
}

using Path = cuda::CudaLaunch;

TEST_F(Path, OfALaunch) {
  EXPECT_GT(allocations_of([&] { built(); }), 0) << "what allocates is counted";
  Launch launch = built().bind(a);
  const std::size_t image = launch.slot("image"), y = launch.slot("y"), gain = launch.slot("gain");
  void *const in = memory(4 * 32 * 32 * 64 * 2), *const out = memory(4 * 32 * 32 * 64 * 2);
  const CUstream s = stream();
  const auto path = [&] {
    launch.rebind(image, in), launch.rebind(y, out), launch.rebind(gain, 0.5);
    launch.enqueue(s);
    launch.enqueue(s);
  };
  state.calls.reserve(1000), state.launches.reserve(10);
  EXPECT_EQ(allocations_of(path), 0);
  EXPECT_EQ(state.launches.size(), 2u);
}

}  // namespace

namespace network::gpu {
namespace {

TEST_F(NetworkLaunches, AllocateNothing) {
  const auto launch = bound();
  const CUstream s = stream();
  void* const in = memory(24);
  const std::size_t x = launch->slot("x");
  EXPECT_EQ(allocations_of([&] {
              launch->enqueue(s);
              launch->rebind(x, in);
              launch->enqueue(s), launch->enqueue(s);
            }),
            0);
  EXPECT_EQ(std::count(state.calls.begin(), state.calls.end(), "launch a graph"), 3);
}

}  // namespace
}  // namespace network::gpu
}  // namespace unisono
