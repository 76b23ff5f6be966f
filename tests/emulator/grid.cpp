// Fibers, their scheduler, and the barriers between them.

#include "emulator/grid.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>
#include <utility>

namespace unisono_emulator {

Grid* grid = nullptr;
Thread* current = nullptr;

namespace {

namespace context = boost::context;

context::fiber scheduler;  // while a thread runs

// Stacks, kept from launch to launch. Each of the first has a guard page below. That is two mappings, of which Linux
// gives a process 65530 (vm.max_map_count): those that a launch of more threads needs lie side by side.
class Stacks {
 public:
  context::stack_context allocate() {
    if (kept().empty()) return coloured(made_ < most_guarded ? guarded() : unguarded());
    const context::stack_context stack = kept().back();
    kept().pop_back();
    return stack;
  }
  void deallocate(context::stack_context& stack) { kept().push_back(stack); }

 private:
  static constexpr std::size_t stack_bytes = 128 * 1024, most_guarded = 16384, block = 64;

  // Stacks lie at multiples of pages: without a step from one to the next, the frames of a warp's lanes would share a
  // few sets of the processor's caches
  static context::stack_context coloured(context::stack_context stack) {
    const std::size_t step = made_++ % 64 * 64;
    stack.sp = static_cast<char*>(stack.sp) - step, stack.size -= step;
    return stack;
  }
  static context::stack_context guarded() {
    static context::protected_fixedsize_stack maker(stack_bytes);
    return maker.allocate();
  }
  static context::stack_context unguarded() {
    static char* next = nullptr;
    static std::size_t left = 0;
    if (left == 0) {
      void* const memory = ::mmap(nullptr, block * stack_bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
      next = static_cast<char*>(memory), left = block;
    }
    context::stack_context stack;
    next += stack_bytes, --left;
    stack.size = stack_bytes, stack.sp = next;  // it grows down
    return stack;
  }
  static std::vector<context::stack_context>& kept() {
    static std::vector<context::stack_context> instance;
    return instance;
  }
  static inline std::size_t made_ = 0;
};

context::fiber make_fiber(Thread& thread, const Entry& entry, void** parameters) {
  return context::fiber(std::allocator_arg, Stacks(), [&thread, &entry, parameters](context::fiber&& from) {
    scheduler = std::move(from);
    try {
      entry.call(parameters);
    } catch (const std::exception& e) {
      if (grid->error.empty())
        grid->error = fmt::format("block {}, thread {}: {}", thread.cta->index, thread.index, e.what());
    }
    thread.finished = thread.advanced = true;
    return std::move(scheduler);
  });
}

// Lets a thread run until it waits. One whose wait goes on is not switched to
void resume(Thread& thread) {
  current = &thread;
  if (thread.is_ready == nullptr || thread.is_ready(thread.awaited)) {
    thread.is_ready = nullptr;
    thread.fiber = std::move(thread.fiber).resume();
  }
  current = nullptr;
}

bool chance(unsigned one_in) { return grid->random() % one_in == 0; }

bool copy_something() {
  if (grid->copies.empty()) return false;
  const std::size_t i = grid->random() % grid->copies.size();
  const auto work = std::move(grid->copies[i]);
  grid->copies[i] = std::move(grid->copies.back());
  grid->copies.pop_back();
  try {
    work();
  } catch (const std::exception& e) {
    if (grid->error.empty()) grid->error = fmt::format("TMA: {}", e.what());
  }
  return true;
}

// Lets the lanes of a warp run until all of them wait, or for some rounds. True if any got on.
bool run_warp(Cta& cta, std::size_t warp) {
  const std::size_t first = warp * 32, last = std::min(first + 32, cta.threads.size());
  bool any = false;
  for (unsigned rounds = chance(4) ? 1 + grid->random() % 8 : ~0u; rounds > 0; --rounds) {
    bool advanced = false;
    for (std::size_t i = first; i < last; ++i) {
      Thread& thread = cta.threads[i];
      if (thread.finished) continue;
      thread.advanced = false;
      resume(thread);
      advanced |= thread.advanced;
      if (!grid->error.empty()) return true;
    }
    any |= advanced;
    if (!advanced) break;
  }
  return any;
}

std::string deadlock() {
  std::map<std::string, std::string> waiting;
  for (const auto& cta : grid->ctas)
    for (const Thread& t : cta->threads)
      if (!t.finished && t.index % 32 == 0) waiting[t.waits_for] += fmt::format(" {}:{}", cta->index, t.index / 32);
  std::string text = "deadlock; warps (block:warp) wait for";
  for (const auto& [what, warps] : waiting) text += fmt::format("\n  {}:{}", what, warps.substr(0, 400));
  return text;
}

void end_launches_ahead() {
  if (std::exchange(grid->launches_ahead, false)) show_memory();
}

// A launch behind this one may rely on those ahead of it only if this one has waited for them
void check_waits(std::size_t begin, std::size_t end) {
  for (std::size_t b = begin; b < end && grid->error.empty(); ++b)
    if (std::none_of(grid->ctas[b]->threads.begin(), grid->ctas[b]->threads.end(),
                     [](const Thread& t) { return t.has_waited; }))
      grid->error = fmt::format("block {} ended without griddepcontrol.wait", b);
}

void schedule(std::size_t begin, std::size_t end) {
  std::vector<std::pair<Cta*, std::size_t>> warps;
  for (std::size_t b = begin; b < end; ++b)
    for (std::size_t w = 0; w < grid->ctas[b]->warps.size(); ++w) warps.emplace_back(grid->ctas[b].get(), w);
  for (int idle = 0; idle < 4;) {
    std::shuffle(warps.begin(), warps.end(), grid->random);
    bool advanced = false, running = false;
    for (const auto& [cta, warp] : warps) {
      advanced |= run_warp(*cta, warp);
      if (!grid->error.empty()) return;
      while (chance(2) && copy_something()) advanced = true;
    }
    for (const auto& [cta, warp] : warps)
      running = running || !std::all_of(cta->threads.begin() + static_cast<std::ptrdiff_t>(warp * 32),
                                        cta->threads.begin() +
                                            static_cast<std::ptrdiff_t>(std::min(warp * 32 + 32, cta->threads.size())),
                                        [](const Thread& t) { return t.finished; });
    if (!running) {
      while (copy_something()) {
      }
      return;
    }
    if (!advanced) advanced = copy_something();
    if (!advanced && grid->launches_ahead) end_launches_ahead(), advanced = true;
    idle = advanced ? 0 : idle + 1;
  }
  grid->error = deadlock();
}

class Window {
 public:
  Window() : memory_(static_cast<std::uint8_t*>(std::aligned_alloc(window_bytes, window_bytes))) {
    if (memory_ == nullptr) throw std::bad_alloc();
    std::memset(memory_, 0xff, window_bytes);  // whoever reads what nobody wrote reads NaN
  }
  ~Window() { std::free(memory_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  std::uint8_t* get() const { return memory_; }

 private:
  std::uint8_t* memory_;
};

void build(Grid& g, const LaunchShape& shape, const std::vector<std::unique_ptr<Window>>& windows) {
  g.extent = shape.grid, g.cta_extent = shape.cta;
  g.random.seed(shape.seed);
  const unsigned threads = shape.cta.x * shape.cta.y * shape.cta.z;
  for (unsigned b = 0; b < shape.grid.x; ++b) {
    if (b % shape.cluster == 0) g.clusters.push_back(std::make_unique<Cluster>());
    auto cta = std::make_unique<Cta>();
    cta->index = b, cta->rank = b % shape.cluster, cta->cluster = g.clusters.back().get();
    cta->cluster->ctas.push_back(cta.get());
    cta->shared = windows[b % windows.size()]->get();
    cta->warps.resize((threads + 31) / 32);
    g.ctas.push_back(std::move(cta));
  }
}

}  // namespace

void switch_out() { scheduler = std::move(scheduler).resume(); }

std::uint8_t* Cta::memory(std::uint32_t address, std::size_t bytes) const {
  if (address + bytes > window_bytes || address < reserved_bytes)
    throw std::runtime_error(fmt::format("shared memory [{}, {}) is outside the window", address, address + bytes));
  return shared + address;
}

std::string run(const LaunchShape& shape, const Entry& entry, void** parameters) {
  if (shape.grid.y != 1 || shape.grid.z != 1 || shape.cta.y != 1 || shape.cta.z != 1)
    return "the emulator knows grids and blocks of one dimension";
  Grid g;
  const std::size_t at_once = shape.together ? shape.grid.x : shape.cluster;
  std::vector<std::unique_ptr<Window>> windows;
  for (std::size_t i = 0; i < at_once; ++i) windows.push_back(std::make_unique<Window>());
  build(g, shape, windows);
  grid = &g;
  show_memory();
  for (std::size_t first = 0; first < g.ctas.size() && g.error.empty(); first += at_once) {
    const std::size_t last = std::min(first + at_once, g.ctas.size());
    for (std::size_t b = first; b < last; ++b) {
      Cta& cta = *g.ctas[b];
      cta.threads.resize(shape.cta.x);
      for (unsigned t = 0; t < shape.cta.x; ++t) {
        cta.threads[t].cta = &cta, cta.threads[t].index = t;
        cta.threads[t].fiber = make_fiber(cta.threads[t], entry, parameters);
      }
    }
    // Where CTAs come one after another, the first and the last
    if (shape.dependent && (first == 0 || last == g.ctas.size())) g.launches_ahead = true, hide_memory();
    schedule(first, last);
    end_launches_ahead();
    if (shape.dependent) check_waits(first, last);
    for (std::size_t b = first; b < last; ++b) g.ctas[b]->threads.clear();  // unwinds what has not finished
  }
  end_recording();
  grid = nullptr;
  return g.error;
}

// --- the running thread -------------------------------------------------------------------------------------------

Index thread_index() { return {current->index, 0, 0}; }
Index cta_index() { return {current->cta->index, 0, 0}; }
Index cta_extent() { return grid->cta_extent; }
Index grid_extent() { return grid->extent; }
unsigned cluster_rank() { return current->cta->rank; }

void await_launches_ahead() {
  current->has_waited = true;
  if (grid->launches_ahead) wait_until("the launches ahead", [] { return !grid->launches_ahead; });
}

void pause() {
  current->waits_for = "memory that it polls";
  switch_out();
}

void delay() {
  current->advanced = true;
  switch_out();
}

std::uint64_t ticks() { return grid->random(); }

std::uint8_t* dynamic_shared() { return current->cta->shared + reserved_bytes; }

std::uint32_t shared_address(const void* pointer) {
  const auto offset = static_cast<const std::uint8_t*>(pointer) - current->cta->shared;
  if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(window_bytes))
    fail("the address of a pointer that is not to the block's shared memory");
  return static_cast<std::uint32_t>(offset);
}

void fail(const char* what) { throw std::runtime_error(what); }

// --- barriers -----------------------------------------------------------------------------------------------------

namespace {

void arrive_and_wait(Barrier& barrier, unsigned threads, const char* what) {
  const std::uint64_t mine = barrier.generation;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0, ++barrier.generation;
    current->advanced = true;
    return;
  }
  wait_until(what, [&barrier, mine] { return barrier.generation != mine; });
}

}  // namespace

void sync_warp() { arrive_and_wait(current->warp().sync, 32, "the lanes of its warp"); }
void sync_cta() { arrive_and_wait(current->cta->all, grid->cta_extent.x, "its block"); }
void sync_cluster() {
  Cluster& cluster = *current->cta->cluster;
  arrive_and_wait(cluster.sync, static_cast<unsigned>(cluster.ctas.size()) * grid->cta_extent.x, "its cluster");
}
void sync_named(int id, int threads) {
  if (id < 0 || id > 15) fail("a named barrier's number is 0 to 15");
  arrive_and_wait(id == 0 ? current->cta->all : current->cta->named[id], static_cast<unsigned>(threads),
                  "a named barrier");
}

std::uint32_t shuffle(std::uint32_t value, int source) {
  Warp& warp = current->warp();
  warp.exchanged[current->index % 32] = value;
  sync_warp();
  const std::uint32_t result = source < 0 || source > 31 ? value : warp.exchanged[source];
  sync_warp();
  return result;
}

// An mbarrier: eight bytes of shared memory
namespace {

struct Mbarrier {
  std::int32_t bytes;     // still to come; below 0 if they came ahead of whoever expects them
  std::uint16_t pending;  // arrivals
  std::uint16_t phase : 1, arrivals : 15;
};
static_assert(sizeof(Mbarrier) == 8);

Mbarrier& at(Cta& cta, std::uint32_t address) {
  if (address % 8 != 0) fail("an mbarrier is not aligned to 8 bytes");
  return *reinterpret_cast<Mbarrier*>(cta.memory(address, 8));
}

void settle(Mbarrier& b) {
  if (b.pending != 0 || b.bytes != 0) return;
  b.phase ^= 1, b.pending = b.arrivals;
}

void arrive(Mbarrier& b) {
  if (b.pending == 0) fail("more arrivals at an mbarrier than a phase has");
  --b.pending;
  settle(b);
}

}  // namespace

void mbarrier_init(std::uint32_t barrier, unsigned arrivals) {
  Mbarrier& b = at(*current->cta, barrier);
  b.bytes = 0, b.phase = 0, b.pending = static_cast<std::uint16_t>(arrivals), b.arrivals = arrivals & 0x7fff;
}

void mbarrier_arrive(std::uint32_t barrier, std::int32_t expected_bytes) {
  Mbarrier& b = at(*current->cta, barrier);
  b.bytes += expected_bytes;
  arrive(b);
}

void mbarrier_arrive_cluster(std::uint32_t barrier, unsigned rank) {
  const auto& ctas = current->cta->cluster->ctas;
  if (rank >= ctas.size()) fail("an arrival at a block that the cluster does not have");
  arrive(at(*ctas[rank], barrier));
}

bool mbarrier_try_wait(std::uint32_t barrier, unsigned parity) {
  const Mbarrier& b = at(*current->cta, barrier);
  const auto ready = [&b, parity] { return b.phase != (parity & 1); };
  if (!ready()) switch_out_until("an mbarrier", ready);
  const bool done = ready();
  if (done) current->advanced = true;
  return done;
}

void complete_bytes(Cta& cta, std::uint32_t barrier, std::int32_t bytes) {
  Mbarrier& b = at(cta, barrier);
  b.bytes -= bytes;
  settle(b);
}

}  // namespace unisono_emulator
