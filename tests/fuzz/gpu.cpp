/// ONNX files planned for a GPU, without one: launches and memory, or refused; within bounds on time and memory.

#include <cstdlib>

#include "fuzz/small_model.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

// Where there is a driver it is asked about its device, and keeps some bytes that nobody can reach.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcuda.so\n"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool alone = [] {
    return ::setenv("UNISONO_TUNING", "off", 1) == 0;
  }();  // the user's database is not read
  (void)alone;
  try {
    const std::optional<unisono::Network> network = unisono::fuzz::small_model(data, size);
    if (!network) return 0;
    const unisono::DeviceReport report =
        unisono::explain_device(*network, {.device = unisono::Device::cuda}, unisono::fuzz::input_shapes(*network));
    if (unisono::to_string(report).empty()) std::abort();
  } catch (const unisono::UserError&) {
  } catch (const unisono::Unsupported&) {
  }
  return 0;
}
