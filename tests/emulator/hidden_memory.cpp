// Device memory that cannot be touched: what the launches ahead write is there only once they are waited for. And
// which pages launches have written.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>

#include "emulator/grid.hpp"
#include "fake/fake_driver.hpp"

extern "C" fake::State* fake_state();

namespace unisono_emulator {

namespace {

// What a fault means: nothing of ours; that a thread or TMA is too early; that the running launch writes a page for the
// first time
enum class State : std::uint8_t { open, hidden, recorded };
State state = State::open;

constexpr std::uintptr_t page_bytes = 4096;

// Pages that launches have written
std::set<std::uintptr_t>& written() {
  static std::set<std::uintptr_t> pages;
  return pages;
}

std::uintptr_t page_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address) / page_bytes; }

void protect(int how) {
  for (const auto& [address, bytes] : fake_state()->memory)
    ::mprotect(reinterpret_cast<void*>(address), std::max<std::size_t>(bytes, 1), how);
}

bool is_device_memory(const void* address) {
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  const auto& memory = fake_state()->memory;
  return std::any_of(memory.begin(), memory.end(), [&](const auto& range) {
    return at >= range.first && at < range.first + std::max<std::size_t>(range.second, 1);
  });
}

// Reports a fault of a kernel's thread or of TMA, or records it. Any other fault is left to the default handler
void on_fault(int, siginfo_t* info, void*) {
  const bool ours = state != State::open && is_device_memory(info->si_addr);
  if (ours && state == State::recorded) {
    const std::uintptr_t page = page_of(info->si_addr);
    written().insert(page);
    ::mprotect(reinterpret_cast<void*>(page * page_bytes), page_bytes, PROT_READ | PROT_WRITE);
    return;
  }
  if (ours) {
    const char* who = current == nullptr ? "TMA" : "a thread";
    std::fprintf(stderr, "emulator: %s touched device memory ahead of griddepcontrol.wait\n", who);
    std::fflush(stderr);
    ::_exit(1);
  }
  std::signal(SIGSEGV, SIG_DFL);
}

void enter(State next, int protection) {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return ::sigaction(SIGSEGV, &action, nullptr) == 0;
  }();
  if (!installed) return;
  state = next;
  protect(protection);
}

}  // namespace

void hide_memory() { enter(State::hidden, PROT_NONE); }
void show_memory() { enter(State::recorded, PROT_READ); }
void end_recording() { enter(State::open, PROT_READ | PROT_WRITE); }

bool is_written_by_launches(const void* address) { return written().contains(page_of(address)); }

void forget_writes(const void* memory, std::size_t bytes) {
  const std::uintptr_t first = page_of(memory), last = page_of(static_cast<const std::byte*>(memory) + bytes);
  written().erase(written().lower_bound(first), written().upper_bound(last));
}

}  // namespace unisono_emulator
