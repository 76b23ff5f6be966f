#pragma once
/// The state of one launch.

#include <array>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "emulator/machine.hpp"

namespace unisono_emulator {

inline constexpr std::size_t window_bytes = 256 * 1024;  ///< a CTA's shared memory, aligned to as much
inline constexpr std::size_t reserved_bytes = 1040;      ///< ahead of what a kernel asks for: not a multiple of 1024

struct Barrier {
  unsigned arrived = 0;
  std::uint64_t generation = 0;
};

using Pair [[gnu::vector_size(16)]] = double;
using ColumnPair = std::array<Pair, 16>;  ///< of two columns of a matrix operand, 16 deep

struct Warp {
  Barrier sync;
  std::uint32_t exchanged[32] = {};
  std::uint32_t fragments[6][32] = {};  ///< registers of matrix operands by lane
  std::vector<ColumnPair> columns;      ///< of the second operands of a group of products
};

struct Product {
  float* d;
  MatrixOperand a, b;
  int n;
  MatrixElement element;
  bool accumulate;
  std::unique_ptr<const std::array<std::array<double, 16>, 2>> rows;  ///< this thread's of a, if it was in registers
};

/// cp.async: of `bytes` bytes the first are read, the others are zeros.
struct AsyncCopy {
  std::uint32_t to;
  const void* from;
  std::uint32_t read, bytes;
};

struct Cta;

struct Thread {
  Cta* cta = nullptr;
  unsigned index = 0;
  boost::context::fiber fiber;
  bool finished = false, advanced = false, has_waited = false;
  const char* waits_for = "";
  bool (*is_ready)(const void*) = nullptr;  ///< while it waits: whether what it waits for has come
  /// What is_ready reads: kept here, as each look at another stack misses the cache.
  alignas(void*) std::byte awaited[24] = {};
  std::vector<Product> open_products;
  std::deque<std::vector<Product>> products;              ///< committed groups
  std::vector<std::shared_ptr<bool>> open_copies;         ///< true once done
  std::deque<std::vector<std::shared_ptr<bool>>> copies;  ///< committed groups of stores
  std::vector<AsyncCopy> open_async;
  std::deque<std::vector<AsyncCopy>> async;  ///< committed groups
  Warp& warp() const;
};

struct Cluster {
  std::vector<Cta*> ctas;
  Barrier sync;
};

struct Cta {
  unsigned index = 0, rank = 0;
  Cluster* cluster = nullptr;
  std::uint8_t* shared = nullptr;
  Barrier all, named[16];
  std::vector<Warp> warps;
  std::vector<Thread> threads;
  /// Throws if bytes [address, address + bytes) lie outside the window.
  std::uint8_t* memory(std::uint32_t address, std::size_t bytes) const;
};

inline Warp& Thread::warp() const { return cta->warps[index / 32]; }

struct Grid {
  Index extent{}, cta_extent{};
  std::vector<std::unique_ptr<Cluster>> clusters;
  std::vector<std::unique_ptr<Cta>> ctas;
  std::vector<std::function<void()>> copies;  ///< that TMA has yet to do, in any order
  std::mt19937 random;
  std::string error;
  bool launches_ahead = false;  ///< still run
};

/// The running launch's grid and thread; launches run one at a time.
extern Grid* grid;
extern Thread* current;

void switch_out();
/// Runs other threads; this one is resumed only when it is its turn and `ready()`, which the scheduler asks.
template <class Ready>
void switch_out_until(const char* what, const Ready& ready) {
  static_assert(std::is_trivially_copyable_v<Ready> && std::is_trivially_destructible_v<Ready> &&
                sizeof(Ready) <= sizeof(Thread::awaited));
  current->waits_for = what;
  current->is_ready = [](const void* awaited) -> bool { return (*std::launder(static_cast<const Ready*>(awaited)))(); };
  new (current->awaited) Ready(ready);
  switch_out();
}

/// Runs other threads until `ready()`.
template <class Ready>
void wait_until(const char* what, const Ready& ready) {
  if (!ready()) switch_out_until(what, ready);
  current->advanced = true;
}

/// As many bytes of transfers as `bytes` have arrived at a barrier.
void complete_bytes(Cta& cta, std::uint32_t barrier, std::int32_t bytes);

struct LaunchShape {
  Index grid{}, cta{};
  unsigned cluster = 1;
  std::size_t shared_bytes = 0;
  bool together = false;   ///< all CTAs are resident at once
  bool dependent = false;  ///< programmatically, on launches ahead
  unsigned seed = 0;
};
/// Takes the device's memory away from whoever touches it, gives it back to a launch, whose writes are then recorded,
/// and gives it back to the host.
void hide_memory();
void show_memory();
void end_recording();
/// Whether a launch has written on the page of this address since it was allocated.
bool is_written_by_launches(const void* address);
/// The memory is no more.
void forget_writes(const void* memory, std::size_t bytes);

/// Runs a launch to its end. Returns what went wrong: empty if nothing.
std::string run(const LaunchShape& shape, const Entry& entry, void** parameters);

}  // namespace unisono_emulator
