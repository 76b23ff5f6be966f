#include "tuner/race.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "families/interface/family.hpp"
#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/stream.hpp"
#include "unisono/error.hpp"

namespace unisono::tuner {
namespace {

constexpr std::size_t most_sets = 24;  // sets of operands; each has a workspace and tensor maps of its own
constexpr double near = 1.06, noise = 1.01;
constexpr std::size_t most_finalists = 4;

double median(std::vector<double> x) {
  std::ranges::sort(x);
  return x[x.size() / 2];
}

}  // namespace

Stopwatch::Entry Stopwatch::entry(const Problem& problem, const Executable& executable) {
  std::vector<Launch> launches;
  for (const Arguments& a : arena_.sets(problem, timing_.rotating_bytes, most_sets, stream_))
    launches.push_back(executable.bind(a));
  const auto count = static_cast<double>(launches.size());
  Entry e{std::make_unique<cuda::Replay>(device_index_, std::move(launches)), count};
  e.replay->times(stream_, 1);  // the first one loads code
  return e;
}

std::vector<double> Stopwatch::times(const Entry& e, int replays) const {
  std::vector<double> us;
  for (const double ms : e.replay->times(stream_, replays)) us.push_back(1000 * ms / e.launches);
  return us;
}

double Stopwatch::glance(const Problem& problem, const Executable& executable) {
  return median(times(entry(problem, executable), timing_.glances));
}

std::vector<double> Stopwatch::compare(const Problem& problem, const std::vector<const Executable*>& finalists) {
  std::vector<Entry> entries;
  for (const Executable* x : finalists) entries.push_back(entry(problem, *x));
  std::vector<std::vector<double>> us(finalists.size());
  for (int round = 0; round < timing_.rounds; ++round)
    for (std::size_t i = 0; i < entries.size(); ++i)
      for (const double x : times(entries[i], timing_.replays)) us[i].push_back(x);
  std::vector<double> medians;
  for (const auto& x : us) medians.push_back(median(x));
  return medians;
}

Runner enter(Stopwatch& stopwatch, const Problem& problem, const Trial& trial, std::size_t index, jit::Binary binary,
             int device_index) {
  lower::Lowered lowered = trial.lowered;
  lowered.problem.options.device = Device::cuda;
  lowered.problem.options.device_index = device_index;
  Runner runner{index, Executable(nullptr), 0, ""};
  try {
    runner.executable = Executable(cuda::build(std::move(lowered), std::move(binary)));
    runner.us = stopwatch.glance(problem, runner.executable);
  } catch (const Error& error) {
    const std::string what = fmt::format("{} with {}: {}", to_string(problem.contraction),
                                         families::describe(trial.lowered.plan()), error.what());
    try {
      cuda::wait(device_index, nullptr);  // a kernel that fails may break the context for all that follows
    } catch (const DeviceError&) {
      throw DeviceError(what);
    }
    runner.out = error.what();
  }
  return runner;
}

std::optional<std::size_t> winner(Stopwatch& stopwatch, const Problem& problem, std::vector<Runner>& runners) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < runners.size(); ++i)
    if (runners[i].out.empty()) order.push_back(i);
  if (order.empty()) return std::nullopt;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return runners[i].us; });
  const double best_us = runners[order[0]].us;
  std::erase_if(order, [&](std::size_t i) { return runners[i].us > near * best_us; });
  if (order.size() > most_finalists) order.resize(most_finalists);
  if (order.size() == 1) return order[0];
  std::vector<const Executable*> finalists;
  for (const std::size_t i : order) finalists.push_back(&runners[i].executable);
  const std::vector<double> us = stopwatch.compare(problem, finalists);
  std::size_t best = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    runners[order[i]].us = us[i];
    if (us[i] < us[best]) best = i;
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    if (runners[order[i]].trial == 0 && us[i] <= noise * us[best]) return order[i];
  return order[best];
}

}  // namespace unisono::tuner
