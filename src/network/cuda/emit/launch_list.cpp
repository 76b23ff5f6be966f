#include "network/cuda/emit/launch_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "tensors/parameters.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::size_t memory_alignment = 256;

std::size_t up_to_alignment(std::size_t bytes) {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

// Those that do not just wait for the launch ahead of them say so
std::string waits(const std::vector<std::size_t>& after, bool is_behind_host) {
  if (after.empty()) return is_behind_host ? "; waits for the host step alone" : "; waits for no launch";
  std::vector<std::size_t> numbers;
  for (const std::size_t j : after) numbers.push_back(j + 1);
  return fmt::format("; waits for launch {}", fmt::join(numbers, " and "));
}

}  // namespace

Location LaunchList::scratch(std::size_t bytes) {
  const Location at{Location::Space::scratch, scratch_used_, {}};
  scratch_used_ += up_to_alignment(bytes);
  sequence_.scratch_bytes = std::max(sequence_.scratch_bytes, scratch_used_);
  return at;
}

Location LaunchList::kept(std::size_t bytes) {
  const Location at{Location::Space::kept, sequence_.kept_bytes, {}};
  sequence_.kept_bytes += up_to_alignment(bytes);
  return at;
}

Faults LaunchList::faults_of(const std::string& where) {
  if (!sequence_.status) sequence_.status = kept(sizeof(TensorStatus));
  const auto number = static_cast<std::uint32_t>(sequence_.steps.size() + 1);
  sequence_.may_fail[number] = where;
  return {*sequence_.status, number};
}

void LaunchList::add(HostStep step) {
  places.next();
  sequence_.host.push_back(std::move(step));
  sequence_.cuts.push_back(sequence_.steps.size());
}

LaunchSequence LaunchList::finish(const plan::Device& device) {
  places.finish(sequence_.host);
  sequence_.staging_bytes = places.staging_bytes(), sequence_.host_bytes = places.host_bytes();
  std::vector<Uses> uses;
  for (const auto& step : sequence_.steps) uses.push_back(step->uses);
  const std::vector<std::size_t>& cuts = sequence_.cuts;
  sequence_.after = within_segments(dependencies(uses, {.sms = device.sms, .threads = device.threads}), cuts);
  for (std::size_t i = 1; i < uses.size(); ++i) {
    if (std::ranges::find(cuts, i) != cuts.end() || sequence_.after[i] == std::vector<std::size_t>{i - 1}) continue;
    sequence_.steps[i]->how += waits(sequence_.after[i], !cuts.empty() && cuts.front() < i);
  }
  return std::move(sequence_);
}

}  // namespace unisono::network::gpu
