#include "plan/spare_sms.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/error.hpp"

namespace unisono::plan {

Device with_spare_sms(Device device, int spare, const char* option) {
  if (spare < 0 || spare >= device.sms)
    throw UserError(fmt::format("{} is {}; expected 0 to {}, as the {} has {} SMs", option, spare, device.sms - 1,
                                device.name, device.sms));
  device.tensor_tflops *= static_cast<double>(device.sms - spare) / device.sms;
  device.sms -= spare;
  for (std::size_t size = 1; size < device.resident_ctas.size(); ++size) {
    const int ctas = static_cast<int>(size), clusters = device.resident_ctas[size] / ctas;
    device.resident_ctas[size] = std::max(0, clusters - spare) * ctas;
  }
  return device;
}

}  // namespace unisono::plan
