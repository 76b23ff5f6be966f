#include "network/cuda/run/segments.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <new>
#include <utility>

#include "network/cuda/run/host_copies.hpp"
#include "runtime/cuda/stream.hpp"
#include "support/machine_memory.hpp"
#include "unisono/cancel.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::align_val_t host_alignment{64};

// Those that no other waits for
std::vector<std::size_t> last_of(const Order& after) {
  std::vector<bool> is_last(after.size(), true);
  for (const auto& awaited : after)
    for (const std::size_t i : awaited) is_last[i] = false;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < after.size(); ++i)
    if (is_last[i]) all.push_back(i);
  return all;
}

// The launches from `begin` to before `end`, which wait for none ahead of these, and those that follow them
std::unique_ptr<cuda::Replay> graph_of(const Plan& plan, const std::vector<Launch>& launches, std::size_t begin,
                                       std::size_t end, const std::vector<Launch>& following = {}) {
  if (begin == end && following.empty()) return nullptr;
  std::vector<Launch> own;
  std::vector<std::string> names;
  Order after;
  for (std::size_t i = begin; i < end; ++i) {
    const Step& step = *plan.launches.steps[i];
    own.push_back(launches[i]);
    names.push_back(fmt::format("{}: {}", step.name, step.what));
    after.push_back(plan.launches.after[i]);
    for (std::size_t& j : after.back()) j -= begin;
  }
  for (const Launch& l : following) {
    own.push_back(l);
    names.emplace_back("after the network");
    after.push_back(last_of(after));
  }
  return std::make_unique<cuda::Replay>(plan.device_index, std::move(own), std::move(names), cuda::graph_by(),
                                        std::move(after));
}

std::byte* host_memory(std::size_t bytes) {
  const std::array<support::MemoryUse, 1> use{{{"tensors of host steps", bytes}}};
  support::require_memory(use);
  try {
    return static_cast<std::byte*>(::operator new(bytes, host_alignment));
  } catch (const std::bad_alloc&) {
    support::refuse_memory(use);
  }
}

}  // namespace

void Segments::Free::operator()(std::byte* p) const { ::operator delete(p, host_alignment); }

Segments::Segments(const Plan& plan, const std::vector<Launch>& launches, std::byte* staging,
                   const std::vector<Launch>& following)
    : plan_(plan), staging_(staging) {
  std::size_t begin = 0;
  for (const std::size_t cut : plan.launches.cuts)
    graphs_.push_back(graph_of(plan, launches, std::exchange(begin, cut), cut));
  const bool has_host_steps = !plan.launches.host.empty();
  graphs_.push_back(
      graph_of(plan, launches, begin, launches.size(), has_host_steps ? std::vector<Launch>() : following));
  if (!has_host_steps) return;
  following_ = graph_of(plan, launches, launches.size(), launches.size(), following);
  place_on_host();
}

// No element is read of what takes no memory: behind all others it overlaps none
TensorView Segments::on_host(const HostTensor& t) const {
  return {memory_.get() + (t.bytes == 0 ? plan_.launches.host_bytes : t.offset), t.type, t.shape, t.strides};
}

void Segments::place_on_host() {
  memory_.reset(host_memory(plan_.launches.host_bytes));
  for (const HostStep& step : plan_.launches.host) {
    OnHost& own = on_host_.emplace_back();
    for (const HostTensor& t : step.inputs) own.inputs[t.name] = on_host(t);
    for (const HostTensor& t : step.outputs) own.outputs[t.name] = on_host(t);
  }
}

void Segments::run(std::size_t host_step, const CallerViews& callers, Stream stream) const {
  const HostStep& step = plan_.launches.host[host_step];
  for (const HostTensor& t : step.inputs) {
    if (t.staged)
      cuda::copy(plan_.device_index, memory_.get() + t.offset, staging_ + t.staged->offset, t.bytes, stream);
    if (!t.callers.empty()) copy_to_host(plan_.device_index, callers.at(t.callers[0]), on_host(t), stream);
  }
  cuda::wait(plan_.device_index, stream);
  check_cancelled();
  step.run(on_host_[host_step].inputs, on_host_[host_step].outputs);
  for (const HostTensor& t : step.outputs)
    if (t.staged)
      cuda::copy(plan_.device_index, staging_ + t.staged->offset, memory_.get() + t.offset, t.bytes, stream);
}

// Behind all that reads the caller's tensors, as one may be an input and an output
void Segments::give_callers(const CallerViews& callers, Stream stream) const {
  for (const HostStep& step : plan_.launches.host)
    for (const HostTensor& t : step.outputs)
      for (const std::size_t position : t.callers)
        copy_from_host(plan_.device_index, on_host(t), callers.at(position), stream);
}

const cuda::Replay* Segments::any() const {
  for (const auto& graph : graphs_)
    if (graph) return graph.get();
  return following_.get();
}

void Segments::replay(const CallerViews& callers, Stream stream) const {
  for (std::size_t k = 0; k < graphs_.size(); ++k) {
    if (k > 0) run(k - 1, callers, stream);
    if (graphs_[k]) graphs_[k]->enqueue(stream);
  }
  give_callers(callers, stream);
  if (following_) following_->enqueue(stream);
}

std::vector<double> Segments::time_each(const CallerViews& callers, Stream stream) const {
  std::vector<double> times;
  for (std::size_t k = 0; k < graphs_.size(); ++k) {
    if (k > 0) {
      const auto start = std::chrono::steady_clock::now();
      run(k - 1, callers, stream);
      cuda::wait(plan_.device_index, stream);
      times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    if (!graphs_[k]) continue;
    const std::vector<double> own = graphs_[k]->time_each(stream);
    times.insert(times.end(), own.begin(), own.end());
  }
  give_callers(callers, stream);
  if (!following_) return times;
  const std::vector<double> last = following_->time_each(stream);
  times.insert(times.end(), last.begin(), last.end());
  return times;
}

void Segments::copy_ahead(void* to, const void* from, std::size_t bytes, Stream stream) const {
  if (const cuda::Replay* const graph = any()) graph->copy_ahead(to, from, bytes, stream);
}

bool Segments::is_captured(Stream stream) const {
  if (const cuda::Replay* const graph = any()) return graph->is_captured(stream);
  return !plan_.launches.host.empty() && cuda::is_captured(plan_.device_index, stream);
}

}  // namespace unisono::network::gpu
