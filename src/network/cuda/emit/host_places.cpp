#include "network/cuda/emit/host_places.hpp"

#include <algorithm>
#include <utility>

namespace unisono::network::gpu {

namespace {

constexpr std::size_t tensor_alignment = 256;

std::size_t up_to_next_tensor(std::size_t bytes) {
  return (bytes + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
}

}  // namespace

std::size_t HostPlaces::offset(TensorId id, std::size_t bytes) {
  const auto [at, is_new] = offsets_.emplace(id, host_bytes_);
  if (is_new) host_bytes_ += up_to_next_tensor(bytes);
  return at->second;
}

Staged HostPlaces::staged(std::size_t bytes) {
  return {.offset = std::exchange(staged_, staged_ + up_to_next_tensor(bytes)), .position = rows_++};
}

void HostPlaces::next() {
  std::size_t& half = halves_[step_++ % 2];
  half = std::max(half, std::exchange(staged_, 0));
}

// The second half lies behind the first
void HostPlaces::finish(std::vector<HostStep>& steps) const {
  for (std::size_t k = 1; k < steps.size(); k += 2)
    for (auto* list : {&steps[k].inputs, &steps[k].outputs})
      for (HostTensor& t : *list)
        if (t.staged) t.staged->offset += halves_[0];
}

}  // namespace unisono::network::gpu
