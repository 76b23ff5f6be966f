#include "tuner/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <optional>

#include "families/interface/family.hpp"
#include "runtime/cuda/stream.hpp"
#include "support/environment.hpp"
#include "tuner/check.hpp"
#include "tuner/compile_queue.hpp"
#include "tuner/race.hpp"
#include "tuning/database.hpp"
#include "unisono/error.hpp"

namespace unisono::tuner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double compiling_share = 0.8;  // share of the time that is allowed; the rest is for finals and checks
constexpr std::size_t most_checks = 4;   // at once: each holds up to some gigabytes

struct Task {
  const Problem* problem;
  tuning::Key key;
  TunedProblem report;
  std::vector<Trial> trials;
  std::vector<Runner> runners;
  std::size_t entered = 0;  ///< trials that have been compiled, and timed if they could be
  enum class State { racing, checking, finished } state = State::racing;
};

struct Check {
  Task* task;
  std::size_t runner;
  std::future<Verdict> verdict;
};

class Search {
 public:
  Search(const std::vector<Problem>& problems, const TuningOptions& options)
      : options_(options),
        device_(cuda::open_device(options.device_index)),
        platform_(tuning::platform_of(device_)),
        file_(database_file()),
        database_(file_, tuning::Database::Access::write) {
    gather(problems);
  }

  TuningReport run() {
    if (std::ranges::any_of(tasks_, [](const Task& t) { return t.state == Task::State::racing; })) race();
    TuningReport report{platform_.device, file_, {}, seconds()};
    for (Task& t : tasks_) report.problems.push_back(std::move(t.report));
    return report;
  }

 private:
  std::filesystem::path database_file() const {
    if (!options_.database.empty()) return options_.database;
    if (const auto file = support::tuning_file()) return *file;
    throw UserError(
        "measured plans cannot be kept: UNISONO_TUNING is off, or neither XDG_CACHE_HOME nor HOME is set; give a file "
        "(--database, TuningOptions::database)");
  }

  void gather(const std::vector<Problem>& problems) {
    std::map<tuning::Key, std::size_t> known;
    for (const Problem& p : problems) {
      tuning::Key key = tuning::key_of(p.task, p.epilogue());
      const auto [at, is_new] = known.emplace(key, tasks_.size());
      if (!is_new) {
        ++tasks_[at->second].report.uses;
        continue;
      }
      Task t{.problem = &p, .key = std::move(key), .report = {}, .trials = {}, .runners = {}};
      t.report.problem = to_string(p.contraction);
      t.report.epilogue = t.key.epilogue.substr(0, t.key.epilogue.rfind(" #"));
      const auto row = options_.again ? std::nullopt : database_.find(platform_, t.key);
      if (row) {
        t.state = Task::State::finished, t.report.known = true;
        t.report.plan = row->plan, t.report.us = t.report.before_us = row->measured_us,
        t.report.predicted_us = row->predicted_us;
      } else {
        t.trials = trials_of(p, device_, std::max<std::size_t>(options_.candidates, 1));
      }
      tasks_.push_back(std::move(t));
    }
  }

  // First plans of all problems first, so that none is without when time is up
  void order_requests() {
    for (std::size_t rank = 0; rank < std::max<std::size_t>(options_.candidates, 2) + 1; ++rank)
      for (Task& t : tasks_)
        if (rank < t.trials.size()) {
          requests_.push_back(&t.trials[rank].request);
          owners_.emplace_back(&t, rank);
        }
  }

  void race() {
    jit::Jit compiler;
    order_requests();
    CompileQueue queue(compiler, requests_, options_.threads);
    const DeviceKernels kernels(options_.device_index, compiler);
    const cuda::OwnStream stream(options_.device_index);
    Arena arena(options_.device_index, kernels);
    Timing timing;
    timing.rotating_bytes = options_.rotating_bytes;
    Stopwatch stopwatch(options_.device_index, arena, stream.get(), timing);
    const auto finish_race = [&](Task& t) { decide(t, stopwatch, kernels, stream.get()); };
    while (std::ranges::any_of(tasks_, [](const Task& t) { return t.state != Task::State::finished; })) {
      if (is_late()) queue.stop();
      if (auto done = queue.next(0.05)) {
        Task& t = *owners_[done->index].first;
        enter_trial(t, owners_[done->index].second, std::move(*done), stopwatch);
        if (t.entered == t.trials.size()) finish_race(t);
      } else if (queue.is_over()) {
        for (Task& t : tasks_)
          if (t.state == Task::State::racing) finish_race(t);
      }
      collect(stopwatch, kernels, stream.get());
      tell();
    }
  }

  void enter_trial(Task& t, std::size_t trial, CompileQueue::Done done, Stopwatch& stopwatch) {
    ++t.entered, ++entered_;
    std::string problem;
    if (done.error) {
      try {
        std::rethrow_exception(done.error);
      } catch (const Error& error) {
        problem = error.what();
      }
    } else {
      t.runners.push_back(
          enter(stopwatch, *t.problem, t.trials[trial], trial, std::move(*done.binary), options_.device_index));
      problem = t.runners.back().out;
      if (problem.empty()) ++t.report.timed;
    }
    if (!problem.empty()) reject(t, trial, problem);
  }

  void reject(Task& t, std::size_t trial, const std::string& why) {
    t.report.rejected.push_back(fmt::format("{}: {}", families::title(t.trials[trial].lowered.plan()), why));
  }

  void decide(Task& t, Stopwatch& stopwatch, const DeviceKernels& kernels, Stream stream) {
    if (t.entered < t.trials.size() && t.report.timed < 2)
      return give_up(t, fmt::format("time was up after {} of its {} plans", t.entered, t.trials.size()));
    const auto best = winner(stopwatch, *t.problem, t.runners);
    if (!best) return give_up(t, "none of its plans could be kept");
    while (checks_.size() >= most_checks) settle(checks_.front(), stopwatch, kernels, stream);
    const Runner& r = t.runners[*best];
    auto judge = start_check(*t.problem, r.executable, t.trials[r.trial].lowered.plan().numerics, kernels,
                             options_.device_index, stream);
    t.state = Task::State::checking;
    checks_.push_back({&t, *best, std::async(std::launch::async | std::launch::deferred, std::move(judge))});
  }

  static void give_up(Task& t, std::string why) {
    t.state = Task::State::finished;
    t.report.error = std::move(why);
    t.runners.clear();
  }

  void collect(Stopwatch& stopwatch, const DeviceKernels& kernels, Stream stream) {
    for (std::size_t i = 0; i < checks_.size();)
      if (checks_[i].verdict.wait_for(std::chrono::seconds(0)) != std::future_status::timeout)  // deferred: no thread
        settle(checks_[i], stopwatch, kernels, stream);
      else
        ++i;
  }

  // Waits for a check, and takes it off the list: its plan is kept, or the next best has its turn
  void settle(Check& entry, Stopwatch& stopwatch, const DeviceKernels& kernels, Stream stream) {
    Check check = std::move(entry);
    checks_.erase(checks_.begin() + (&entry - checks_.data()));
    Task& t = *check.task;
    Runner& r = t.runners[check.runner];
    r.out = why_wrong(check.verdict);
    if (r.out.empty()) return keep(t, r);
    reject(t, r.trial, r.out);
    decide(t, stopwatch, kernels, stream);
  }

  // Empty if all is well
  static std::string why_wrong(std::future<Verdict>& judged) {
    try {
      const Verdict verdict = judged.get();
      return verdict.ok() ? "" : to_string(verdict);
    } catch (const Error& error) {  // the reference cannot evaluate it
      return error.what();
    }
  }

  void keep(Task& t, const Runner& r) {
    const families::Plan& plan = t.trials[r.trial].lowered.plan();
    t.report.plan = to_string(families::override_of(plan));
    t.report.us = r.us, t.report.predicted_us = plan.predicted_us;
    for (const Runner& other : t.runners)
      if (other.trial == 0) t.report.before_us = other.us;
    const tuning::Row row{platform_, t.key, t.report.plan, r.us, plan.predicted_us, tuning::now_text()};
    database_.put({&row, 1});
    t.state = Task::State::finished;
    t.runners.clear();
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool is_late() const { return options_.seconds > 0 && seconds() > compiling_share * options_.seconds; }

  void tell() {
    if (!options_.progress) return;
    TuningProgress p;
    p.problems = tasks_.size();
    for (const Task& t : tasks_) p.finished += t.state == Task::State::finished ? 1 : 0;
    p.kernels = requests_.size(), p.timed = entered_, p.seconds = seconds();
    p.seconds_left = -1;
    if (entered_ > 0)
      p.seconds_left = p.seconds / static_cast<double>(entered_) * static_cast<double>(p.kernels - entered_);
    if (options_.seconds > 0 && entered_ > 0)
      p.seconds_left = std::clamp(options_.seconds - p.seconds, 0.0, p.seconds_left);
    options_.progress(p);
  }

  const TuningOptions& options_;
  Clock::time_point start_ = Clock::now();
  plan::Device device_;
  tuning::Platform platform_;
  std::filesystem::path file_;
  tuning::Database database_;
  std::vector<Task> tasks_;
  std::vector<const jit::Request*> requests_;
  std::vector<std::pair<Task*, std::size_t>> owners_;  // who waits for each request
  std::vector<Check> checks_;
  std::size_t entered_ = 0;
};

}  // namespace

TuningReport tune(const std::vector<Problem>& problems, const TuningOptions& options) {
  if (options.candidates < 1) throw UserError("TuningOptions::candidates is 0; expected at least 1");
  return Search(problems, options).run();
}

}  // namespace unisono::tuner
