/// ONNX files planned for a GPU, without one: launches and memory, or refused; within bounds on time and memory.

#include <cstdlib>

#include "coda/error.hpp"
#include "coda/network.hpp"
#include "small_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool alone = [] { return ::setenv("CODA_TUNING", "off", 1) == 0; }();  // the user's database is not read
  (void)alone;
  try {
    const std::optional<coda::Network> network = coda::fuzz::small_model(data, size);
    if (!network) return 0;
    const coda::DeviceReport report =
        coda::explain_device(*network, {.device = coda::Device::cuda}, coda::fuzz::input_shapes(*network));
    if (coda::to_string(report).empty()) std::abort();
  } catch (const coda::UserError&) {
  } catch (const coda::Unsupported&) {
  }
  return 0;
}
