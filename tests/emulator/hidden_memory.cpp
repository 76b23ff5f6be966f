// Device memory that cannot be touched: what the launches ahead write is there only once they are waited for.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "emulator/grid.hpp"
#include "fake/fake_driver.hpp"

extern "C" fake::State* fake_state();

namespace unisono_emulator {

namespace {

bool is_hidden = false;

void protect(int how) {
  for (const auto& [address, bytes] : fake_state()->memory)
    ::mprotect(reinterpret_cast<void*>(address), std::max<std::size_t>(bytes, 1), how);
}

// Reports a fault of a kernel's thread or of TMA. Any other fault is left to the default handler
void on_fault(int, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<CUdeviceptr>(info->si_addr);
  const auto& memory = fake_state()->memory;
  const bool ours = is_hidden && std::any_of(memory.begin(), memory.end(), [&](const auto& range) {
                      return at >= range.first && at < range.first + range.second;
                    });
  if (ours) {
    const char* who = current == nullptr ? "TMA" : "a thread";
    std::fprintf(stderr, "emulator: %s touched device memory ahead of griddepcontrol.wait\n", who);
    std::fflush(stderr);
    ::_exit(1);
  }
  std::signal(SIGSEGV, SIG_DFL);
}

}  // namespace

void hide_memory() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGSEGV, &action, nullptr) == 0;
  }();
  is_hidden = installed;
  protect(PROT_NONE);
}

void show_memory() {
  protect(PROT_READ | PROT_WRITE);
  is_hidden = false;
}

}  // namespace unisono_emulator
