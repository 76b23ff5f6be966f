// --broad: thousands of random problems, each checked at every element and run twice.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <set>
#include <thread>

#include "gpu/broad.hpp"
#include "gpu/broad_run.hpp"
#include "gpu/kernels.hpp"
#include "gpu/moments.hpp"
#include "gpu/options.hpp"
#include "gpu/testbed.hpp"
#include "lower/lower.hpp"
#include "passes/passes.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string again(const Case& c) {
  const std::string number =
      c.name.substr(c.name.find_last_not_of("0123456789", c.name.find_last_of("0123456789")) + 1);
  return fmt::format("again: unisono_gpu_tests --seed {} --broad-case {}\n", options().seed, std::stoi(number));
}

struct Verdict {
  std::string name, wrong;
  Tally tally;
};

// Problems one after another, their results judged on all cores meanwhile
class Run {
 public:
  explicit Run(std::size_t cases) : cases_(cases) {}

  void take(const Case& c) {
    std::string problems;
    try {
      Testbed testbed(c);
      const Executable executable = testbed.compile();
      Outcome outcome = testbed.run(executable, problems);
      judge_later(std::move(outcome), problems, executable.describe());
    } catch (const Unsupported& error) {
      ++refused_;  // drawn for an H200: a smaller GPU may have no room
      if (options().verbose) std::printf("%s\n%s\n", c.describe().c_str(), error.what());
    } catch (const DeviceError& error) {  // nothing runs after this
      std::printf("%s%s\n%s\n", again(c).c_str(), c.describe().c_str(), error.what());
      throw;
    } catch (const Error& error) {
      report(fmt::format("{}\n{}{}\n", error.what(), again(c), c.describe()));
    }
    ++taken_;
    if (Clock::now() - shown_ > std::chrono::seconds(10)) show();
  }

  int finish() {
    while (!pending_.empty()) collect();
    show();
    std::printf("%zu problems agree, %d do not, %d refused by this GPU; %lld elements, %lld of them without a claim\n",
                agreed_, wrong_, refused_, static_cast<long long>(total_.elements),
                static_cast<long long>(total_.without_claim));
    // A comparison of values that are nearly equal may turn out either way, and so may what reads it: some elements
    // have no claim, but problems of which most have none test little. Problems count alike: one large one has as many
    // elements as hundreds of small ones
    const double share = unclaimed_shares_ / static_cast<double>(std::max<std::size_t>(1, taken_));
    std::printf(
        "%d problems, %d of them for more than half of their elements, have elements without a claim: %.2f %% of a "
        "problem's in the mean\n",
        unclaimed_, mostly_unclaimed_, 100 * share);
    const bool claims = mostly_unclaimed_ * 100 <= static_cast<int>(taken_) && share <= 0.01;
    if (!claims)
      std::printf("FAILED: more than one in a hundred of a problem's elements, or of such problems, have no claim\n");
    return wrong_ == 0 && claims ? 0 : 1;
  }

 private:
  void judge_later(Outcome outcome, const std::string& problems, const std::string& described) {
    while (pending_.size() >= most_) collect();
    pending_.push_back(std::async(std::launch::async, [o = std::move(outcome), problems, described] {
      Verdict v;
      v.name = o.c.name;
      v.wrong = problems + judge(o, &v.tally);
      if (!v.wrong.empty()) v.wrong += fmt::format("{}{}\n{}\n", again(o.c), o.c.describe(), described);
      return v;
    }));
  }
  void collect() {
    const Verdict v = pending_.front().get();
    pending_.erase(pending_.begin());
    total_.elements += v.tally.elements, total_.without_claim += v.tally.without_claim;
    unclaimed_ += v.tally.without_claim > 0 ? 1 : 0;
    unclaimed_shares_ += static_cast<double>(v.tally.without_claim) /
                         static_cast<double>(std::max<decltype(v.tally.elements)>(1, v.tally.elements));
    mostly_unclaimed_ += 2 * v.tally.without_claim > v.tally.elements ? 1 : 0;
    if (v.tally.without_claim > 0 && options().verbose)
      std::printf("no claim on %lld of %lld elements: %s\n", static_cast<long long>(v.tally.without_claim),
                  static_cast<long long>(v.tally.elements), v.name.c_str());
    if (v.wrong.empty())
      ++agreed_;
    else
      report(v.wrong);
  }
  void report(const std::string& text) {
    ++wrong_;
    std::printf("WRONG: %s\n", text.c_str());
    std::fflush(stdout);
  }
  void show() {
    std::printf("%zu of %zu problems, %d wrong, %.0f s\n", taken_, cases_, wrong_, seconds_since(start_));
    std::fflush(stdout);
    shown_ = Clock::now();
  }

  const std::size_t cases_, most_ = std::max(2u, std::thread::hardware_concurrency());
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  std::vector<std::future<Verdict>> pending_;
  std::size_t taken_ = 0, agreed_ = 0;
  int wrong_ = 0, refused_ = 0, unclaimed_ = 0, mostly_unclaimed_ = 0;
  double unclaimed_shares_ = 0;  // of each problem, added up
  Tally total_;
};

void show_refusals(const Refusals& refusals, std::size_t cases) {
  std::vector<std::pair<int, std::string>> list;
  int total = 0;
  for (const auto& [reason, times] : refusals) list.emplace_back(times, reason), total += times;
  std::sort(list.rbegin(), list.rend());
  std::printf("%zu problems, seed %llu; while they were drawn %d were refused:\n", cases,
              static_cast<unsigned long long>(options().seed), total);
  for (const auto& [times, reason] : list) std::printf("  %5d %s\n", times, reason.c_str());
  std::fflush(stdout);
}

}  // namespace

std::vector<Case> chosen_broad_cases() {
  Refusals refusals;
  if (options().broad_case >= 0) {
    auto family = broad_family(options().seed, options().broad_case / broad_shapes, refusals);
    return {family[static_cast<std::size_t>(options().broad_case % broad_shapes)]};
  }
  auto cases = broad_cases(options().seed, options().broad, refusals);
  show_refusals(refusals, cases.size());
  cases.erase(cases.begin(), cases.begin() + std::clamp(options().broad_first, 0, options().broad));
  if (options().small) std::erase_if(cases, is_large);
  return cases;
}

std::vector<Case> broad_endurance_cases() {
  std::vector<Case> some;
  auto cases = chosen_broad_cases();
  for (std::size_t i = 0; i < cases.size(); i += broad_shapes) {
    Case& c = cases[i];
    c.delays = c.options.watchdog = options().delays;
    if (is_served(c)) some.push_back(std::move(c));
  }
  return some;
}

std::vector<jit::Request> requests_of(const std::vector<Case>& cases) {
  std::vector<jit::Request> requests{kernels_request(planning_device())};
  std::set<std::string> seen;
  for (const Case& c : cases) {
    try {
      jit::Request r = kernel_of(c, planning_device()).request();
      if (r.title.find(options().only) == std::string::npos) continue;
      if (seen.insert(r.source).second) requests.push_back(std::move(r));
    } catch (const Unsupported&) {  // Run::take counts it
    }
  }
  return requests;
}

int run_broad(const std::function<void(const std::vector<jit::Request>&)>& compile) {
  const std::vector<Case> cases = chosen_broad_cases();
  const auto start = Clock::now();
  if (cases.size() > 1) compile(requests_of(cases));
  std::printf("compiled in %.0f s\n", seconds_since(start));
  Run run(cases.size());
  for (const Case& c : cases) {
    if (options().seconds > 0 && seconds_since(start) > options().seconds) {
      std::printf("stopped: --seconds %d are over\n", options().seconds);
      break;
    }
    if (options().verbose) std::printf("%s\n", c.describe().c_str()), std::fflush(stdout);
    run.take(c);
  }
  return run.finish();
}

}  // namespace unisono::gpu
