#include "network/cuda/step.hpp"

#include <fmt/format.h>

#include "lower/request.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

void Constant::load(int device_index) {
  std::call_once(once_, [&] {
    const std::vector<std::byte> bytes = make_();
    memory_ = std::make_unique<cuda::DeviceBuffer>(device_index, bytes.data(), bytes.size());
    make_ = {};
  });
}

void* address(const Place& place, const Bases& bases) {
  switch (place.where) {
    case Place::Where::arena: return bases.arena + place.offset;
    case Place::Where::scratch: return bases.scratch + place.offset;
    case Place::Where::kept: return bases.kept + place.offset;
    case Place::Where::callers: return bases.callers + place.offset;
    case Place::Where::constant: return static_cast<std::byte*>(place.constant->data()) + place.offset;
  }
  throw InternalError("an argument lies nowhere");
}

jit::Request PlainStep::request() const {
  return {.source = source_,
          .headers = lower::device_headers(),
          .entry = entry_,
          .title = fmt::format("{}, {}", what, how)};
}

void PlainStep::load(int device_index, jit::Binary binary) {
  kernel_ = cuda::load_plain(device_index, binary, entry_, parameter_bytes_);
}

Launch PlainStep::bind(const Bases& bases) const {
  return cuda::bind_plain(kernel_, grid_, parameters_(bases), fmt::format("{} ({})", name, what));
}

}  // namespace unisono::network::gpu
