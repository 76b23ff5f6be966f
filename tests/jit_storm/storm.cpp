// Processes that start cold on the same kernels at once, one of them killed by SIGKILL at a random time.
//
// usage: jit_storm [--rounds N] [--processes N] [--kernels N] [--compiler fake|nvrtc] [--seed N] [--damage]
// [--no-locks]
//
// After each round: nobody hung; every survivor got the right binaries without a warning; every kernel was compiled by
// at most one survivor, and by none if the killed process had ended with it; the cache holds every kernel, whole, and
// nothing else once the next process has started. --damage truncates entries in the middle; then kernels are compiled
// again.
// --no-locks gives each process locks of its own: the storm must notice.

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "jit/cache.hpp"
#include "jit/maintenance.hpp"
#include "worker.hpp"

namespace {

namespace fs = std::filesystem;
using namespace unisono;
using Clock = std::chrono::steady_clock;

constexpr auto hang = std::chrono::seconds(60);

struct StormOptions {
  storm::Options worker;
  int rounds = 20, processes = 8;
  unsigned seed = 1;
  bool damage = false, locks = true;
};

struct Process {
  pid_t pid = 0;
  fs::path log;
  int status = 0;
  bool ended = false;
};

/// Counts over all rounds.
struct Totals {
  int killed_at_work = 0, killed_while_compiling = 0, swept = 0, compilations = 0;
  std::vector<std::string> problems;
};

class Round {
 public:
  Round(const StormOptions& options, const fs::path& root, std::mt19937& random, Totals& totals)
      : options_(options), root_(root), cache_(root / "cache"), random_(random), totals_(totals) {}

  /// `last`: how long the last round took. Returns how long this one did.
  Clock::duration run(Clock::duration last) {
    fs::create_directories(root_);
    start_processes();
    const auto start = Clock::now();
    ::close(gate_);  // all read the end of their input: the start
    disturb(start, last);
    wait_for_all();
    const auto duration = Clock::now() - start;
    check();
    return duration;
  }

 private:
  void start_processes() {
    int gate[2];
    if (::pipe2(gate, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    gate_ = gate[1];
    for (int i = 0; i < options_.processes; ++i) {
      processes_.push_back({.log = root_ / fmt::format("log.{}", i)});
      spawn(i, gate[0]);
    }
    ::close(gate[0]);
  }

  void spawn(int index, int input) {
    const std::string locks = options_.locks ? "locks" : fmt::format("locks.{}", index);
    fs::create_directories(root_ / locks);
    const std::vector<std::string> arguments{"jit_storm",
                                             "--worker",
                                             cache_.string(),
                                             processes_.back().log.string(),
                                             options_.worker.compiler,
                                             std::to_string(options_.worker.kernels)};
    std::vector<char*> argv;
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::setenv("XDG_RUNTIME_DIR", (root_ / locks).c_str(), 1);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    const int error = ::posix_spawn(&processes_.back().pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("posix_spawn");
  }

  void disturb(Clock::time_point start, Clock::duration last) {
    victim_ = std::uniform_int_distribution<std::size_t>(0, processes_.size() - 1)(random_);
    const auto pause = std::chrono::duration_cast<std::chrono::microseconds>(last).count();
    const auto at = start + std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(0, pause)(random_));
    while (options_.damage && Clock::now() < at) {
      damage_one();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::this_thread::sleep_until(at);
    ::kill(processes_[victim_].pid, SIGKILL);
  }

  void damage_one() {
    for (const auto& entry : jit::list_entries(cache_)) {
      if (random_() % 4 != 0) continue;
      std::error_code ignored;
      fs::resize_file(entry.folder / jit::cubin_file, random_() % 100, ignored);
    }
  }

  void wait_for_all() {
    const auto end = Clock::now() + hang;
    for (Process& p : processes_) {
      while (::waitpid(p.pid, &p.status, WNOHANG) == 0) {
        if (Clock::now() > end) {
          problem(fmt::format("process {} hangs", p.pid));
          ::kill(p.pid, SIGKILL);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  struct Said {
    std::multiset<std::string> started;
    std::set<std::string> done;
  };
  static Said read(const fs::path& log) {
    Said said;
    std::ifstream file(log);
    for (std::string word, title; file >> word >> title;) {
      if (word == "start") said.started.insert(title);
      if (word == "done") said.done.insert(title);
    }
    return said;
  }

  void check() {
    std::map<std::string, int> compiled;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (i == victim_) continue;
      if (processes_[i].status != 0)
        problem(fmt::format("process {} ended with status {:#x}", processes_[i].pid, processes_[i].status));
      for (const std::string& title : read(processes_[i].log).started) ++compiled[title];
    }
    const Said killed = read(processes_[victim_].log);
    if (WIFSIGNALED(processes_[victim_].status)) {
      ++totals_.killed_at_work;
      totals_.killed_while_compiling += killed.started.size() > killed.done.size();
    }
    totals_.compilations += static_cast<int>(killed.started.size());
    for (const auto& request : storm::requests(options_.worker))
      check_count(request.title, compiled[request.title], killed);
    check_cache();
  }

  void check_count(const std::string& title, int survivors, const Said& killed) {
    totals_.compilations += survivors;
    if (survivors + static_cast<int>(killed.started.count(title)) == 0)
      problem(fmt::format("kernel {} was compiled by nobody", title));
    if (options_.damage) return;
    if (survivors > 1) problem(fmt::format("kernel {} was compiled by {} processes", title, survivors));
    if (survivors > 0 && killed.started.contains(title) && killed.done.contains(title))
      problem(fmt::format("kernel {} was compiled again", title));
  }

  void check_cache() {
    jit::Settings settings;
    settings.cache = cache_;
    totals_.swept += static_cast<int>(count(cache_ / jit::making_folder));
    const jit::Jit next(settings);
    if (count(cache_ / jit::making_folder) != 0) problem("leftovers of the killed process were not swept");
    if (options_.damage) return;
    if (count(cache_ / jit::broken_folder) != 0) problem("an entry was found broken");
    const auto entries = jit::verify_entries(cache_);
    if (static_cast<int>(entries.size()) != options_.worker.kernels) problem(fmt::format("{} entries", entries.size()));
    for (const auto& e : entries) {
      if (!e.problem.empty()) problem(e.key + ": " + e.problem);
    }
  }

  static std::size_t count(const fs::path& folder) {
    return fs::is_directory(folder) ? std::distance(fs::directory_iterator(folder), fs::directory_iterator()) : 0;
  }

  void problem(const std::string& text) {
    fmt::print(stderr, "{}: {}\n", root_.filename().string(), text);
    totals_.problems.push_back(text);
  }

  const StormOptions& options_;
  fs::path root_, cache_;
  std::mt19937& random_;
  Totals& totals_;
  std::vector<Process> processes_;
  std::size_t victim_ = 0;
  int gate_ = -1;
};

int number(const std::string& option, const char* text) {
  int value = 0;
  const std::string_view all = text == nullptr ? "" : text;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (all.empty() || error != std::errc{} || end != all.data() + all.size() || value < 1) {
    throw std::invalid_argument(option + ": expected a number of at least 1");
  }
  return value;
}

StormOptions parse(int argc, char** argv) {
  StormOptions o;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--damage") {
      o.damage = true;
    } else if (option == "--no-locks") {
      o.locks = false;
    } else if (option == "--compiler" && i + 1 < argc) {
      o.worker.compiler = argv[++i];
    } else if (option == "--rounds") {
      o.rounds = number(option, argv[++i]);
    } else if (option == "--processes") {
      o.processes = number(option, argv[++i]);
    } else if (option == "--kernels") {
      o.worker.kernels = number(option, argv[++i]);
    } else if (option == "--seed") {
      o.seed = static_cast<unsigned>(number(option, argv[++i]));
    } else {
      throw std::invalid_argument("unknown option " + option + "; see the head of tests/jit_storm/storm.cpp");
    }
  }
  return o;
}

int run(const StormOptions& options) {
  std::string name = (fs::temp_directory_path() / "unisono_storm_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  const fs::path root = name;
  std::mt19937 random(options.seed);
  Totals totals;
  const auto start = Clock::now();
  Clock::duration last = std::chrono::milliseconds(100);
  for (int i = 0; i < options.rounds; ++i) {
    const fs::path folder = root / fmt::format("round {}", i);
    last = Round(options, folder, random, totals).run(last);
    fs::remove_all(folder);
  }
  fs::remove_all(root);
  fmt::print(
      "{} rounds of {} processes on {} kernels, {} compiler, seed {}: {:.1f} s; killed at work {}, while compiling {}; "
      "leftovers swept {}; {} compilations; {} problems\n",
      options.rounds, options.processes, options.worker.kernels, options.worker.compiler, options.seed,
      std::chrono::duration<double>(Clock::now() - start).count(), totals.killed_at_work, totals.killed_while_compiling,
      totals.swept, totals.compilations, totals.problems.size());
  return totals.problems.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 6 && std::string(argv[1]) == "--worker") {
    return storm::work({.compiler = argv[4], .kernels = number("kernels", argv[5])}, argv[2], argv[3]);
  }
  return run(parse(argc, argv));
} catch (const std::exception& e) {
  fmt::print(stderr, "jit_storm: {}\n", e.what());
  return 2;
}
