#include "network/cuda/step.hpp"

#include <fmt/format.h>

#include "lower/request.hpp"

namespace unisono::network::gpu {

std::optional<jit::Request> PlainStep::request() const {
  return jit::Request{.source = source_,
                      .headers = lower::device_headers(),
                      .entry = entry_,
                      .title = fmt::format("{}, {}", what, how),
                      .arch = arch_};
}

void PlainStep::load(int device_index, jit::Binary binary) {
  kernel_ = cuda::load_plain(device_index, binary, entry_, parameter_bytes_);
}

Launch PlainStep::bind(const Bases& bases) const {
  const PlainParameter parameter = parameters_(bases);
  return cuda::bind_plain(kernel_, grid_, parameter.bytes, fmt::format("{} ({})", name, what), parameter.maps);
}

std::vector<const StepText*> LaunchSequence::in_order() const {
  std::vector<const StepText*> all;
  std::size_t begin = 0;
  const auto add_launches = [&](std::size_t end) {
    for (; begin < end; ++begin) all.push_back(steps[begin].get());
  };
  for (std::size_t k = 0; k < host.size(); ++k) {
    add_launches(cuts[k]);
    all.push_back(&host[k]);
  }
  add_launches(steps.size());
  return all;
}

std::vector<std::string> LaunchSequence::unserved() const {
  std::vector<std::string> all;
  for (const HostStep& step : host) all.insert(all.end(), step.unserved.begin(), step.unserved.end());
  return all;
}

}  // namespace unisono::network::gpu
