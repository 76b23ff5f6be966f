#include "network/cuda/step.hpp"

#include <fmt/format.h>

#include "lower/request.hpp"

namespace unisono::network::gpu {

jit::Request PlainStep::request() const {
  return {.source = source_,
          .headers = lower::device_headers(),
          .entry = entry_,
          .title = fmt::format("{}, {}", what, how),
          .arch = arch_};
}

void PlainStep::load(int device_index, jit::Binary binary) {
  kernel_ = cuda::load_plain(device_index, binary, entry_, parameter_bytes_);
}

Launch PlainStep::bind(const Bases& bases) const {
  return cuda::bind_plain(kernel_, grid_, parameters_(bases), fmt::format("{} ({})", name, what));
}

}  // namespace unisono::network::gpu
