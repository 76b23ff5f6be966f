// --plans, --walk: whether every kernel that a planner may choose compiles.

#include "gpu/plans.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gpu/broad.hpp"
#include "gpu/case.hpp"
#include "gpu/options.hpp"
#include "jit/compiler.hpp"
#include "lower/lower.hpp"
#include "lower/request.hpp"
#include "plan/products.hpp"
#include "products/space.hpp"
#include "support/hash.hpp"
#include "support/random.hpp"
#include "support/replace_file.hpp"
#include "support/subprocess.hpp"
#include "tensors/space.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

jit::Request request_of(std::string source, std::string entry, std::string title) {
  return {.source = std::move(source),
          .headers = lower::device_headers(),
          .entry = std::move(entry),
          .title = std::move(title),
          .arch = planning_device().arch()};
}

// The call of a kernel's function, which names all template arguments
std::string call_in(const std::string& source) {
  const std::size_t end = source.rfind("(p);"), begin = source.rfind("    ", end);
  return end == std::string::npos ? "" : source.substr(begin + 4, end - begin - 4);
}

std::vector<jit::Request> products_and_tensors() {
  std::vector<jit::Request> all;
  for (products::Kernel& k : products::every_kernel(planning_device()))
    all.push_back(request_of(k.source, k.entry, call_in(k.source)));
  for (tensors::KernelText& k : tensors::every_kernel())
    all.push_back(request_of(k.source, k.entry, "tensors: " + call_in(k.source)));
  return all;
}

// Those whose families, and shared memory, differ
std::vector<plan::Device> planned_for() {
  return {planning_device(), plan::product("A100"), plan::product("RTX 4090"), plan::product("B200")};
}

std::vector<families::PlanPointer> legal_plans(const lower::Problem& problem, const plan::Device& device) {
  std::vector<families::PlanPointer> legal;
  const auto all = families::candidates({problem.task, problem.forms, device});
  if (!all) return legal;
  for (const families::Candidate& x : *all)
    if (x.is_legal()) legal.push_back(x.plan);
  return legal;
}

jit::Request request_of(const Case& c, const lower::Problem& problem, const families::PlanPointer& plan,
                        const plan::Device& device) {
  jit::Request request = lower::lower(problem, plan, device).value().request();
  request.title = c.name + ", " + to_string(families::override_of(*plan)) + ", " + device.name;
  return request;
}

// ---- A few, by the host's compiler

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The word ahead of `end`
std::string word_before(const std::string& line, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && is_word(line[begin - 1])) --begin;
  return line.substr(begin, end - begin);
}

// What a line defines at the beginning of a line, outside of any struct: of a type, an alias or a function
std::string defined_in(const std::string& line) {
  if (line.starts_with("struct ")) return word_before(line, line.find_last_not_of(" {") + 1);
  if (line.starts_with("using ") && line.find(" = ") != std::string::npos) return word_before(line, line.find(" = "));
  const bool is_function = !line.empty() && is_word(line[0]) && !line.starts_with("namespace ");
  return is_function && line.find('(') != std::string::npos ? word_before(line, line.find('(')) : "";
}

// Many kernels as one file: their own names are numbered, as are those of entry points
std::string as_one_file(const std::vector<jit::Request>& requests) {
  std::string includes, text;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::istringstream lines(requests[i].source);
    std::string body;
    std::set<std::string> names{requests[i].entry};
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#include")) {
        if (seen.insert(line).second) includes += line + "\n";
        continue;
      }
      if (line.starts_with("#define")) continue;
      const std::string name = line.starts_with("extern ") ? "" : defined_in(line);
      if (!name.empty() && name != "unisono_kernel") names.insert(name);
      body += line + "\n";
    }
    text += fmt::format("\n// {}: {}\n", i, requests[i].title);
    for (const std::string& n : names) text += fmt::format("#define {0} {0}_{1}\n", n, i);
    text += body;
    for (const std::string& n : names) text += fmt::format("#undef {}\n", n);
  }
  return includes + text;
}

support::Outcome checked_by_host(const std::vector<jit::Request>& requests, const fs::path& folder) {
  const fs::path file = folder / "plans.cpp";
  support::replace_file(file, as_one_file(requests));
  std::vector<std::string> command;
  std::istringstream words(options().syntax);
  for (std::string word; words >> word;) command.push_back(word);
  command.push_back(file.string());
  return support::run({.arguments = command, .folder = folder});
}

// Those that do not compile, with what the compiler says
int list_failures(const std::vector<jit::Request>& requests, const fs::path& folder) {
  int failures = 0;
  for (const jit::Request& r : requests) {
    const support::Outcome alone = checked_by_host({r}, folder);
    if (alone.exit_code == 0) continue;
    ++failures;
    std::printf("FAILED %s\n%s\n", r.title.c_str(), alone.output.c_str());
  }
  return failures;
}

// Kernels that differ in a width or a type alone are of one kind: its call without numbers of two digits and more, and
// without types of elements
std::string kind_of(const std::string& call) {
  std::string kind;
  for (std::size_t i = 0; i < call.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(call[i])) != 0;
    const bool is_long = digit && ((i > 0 && std::isdigit(static_cast<unsigned char>(call[i - 1])) != 0) ||
                                   (i + 1 < call.size() && std::isdigit(static_cast<unsigned char>(call[i + 1])) != 0));
    if (!is_long) kind += call[i];
  }
  return kind;
}

// Most kernels are of attention, by its widths: kinds are drawn first, so that rare ones are met
std::vector<jit::Request> drawn_plans() {
  test::Random random(options().seed);
  const auto count = static_cast<std::size_t>(options().plans);
  std::map<std::string, std::vector<jit::Request>> by_kind;
  for (jit::Request& r : products_and_tensors()) by_kind[kind_of(r.title)].push_back(std::move(r));
  std::vector<const std::vector<jit::Request>*> of_products, of_tensors;
  for (const auto& [kind, members] : by_kind)
    (kind.starts_with("tensors: ") ? of_tensors : of_products).push_back(&members);
  std::vector<jit::Request> drawn;
  while (drawn.size() < count * 4 / 10) drawn.push_back(random.one_of(*random.one_of(of_products)));
  while (drawn.size() < count * 6 / 10) drawn.push_back(random.one_of(*random.one_of(of_tensors)));
  Refusals refusals;
  for (int family = 0; drawn.size() < count; ++family) {
    const Case c = broad_family(options().seed, family, refusals).front();
    const lower::Problem problem = lower::analyse(c.contraction(), graph_of(c), c.options).value();
    for (const plan::Device& device : planned_for())
      if (const auto legal = legal_plans(problem, device); !legal.empty() && drawn.size() < count)
        drawn.push_back(request_of(c, problem, random.one_of(legal), device));
  }
  return drawn;
}

// ---- All of them, by NVRTC

// The parameters of a configuration's text: "kTileM = 128", "Operands = Images"
std::vector<std::string> parameters_in(const std::string& source) {
  const std::size_t begin = source.find("struct Config {"), end = source.find("\n};", begin);
  std::vector<std::string> all;
  for (std::size_t at = begin; begin != std::string::npos; ++at) {
    at = source.find(" = ", at);
    if (at == std::string::npos || at > end) break;
    const std::size_t last = source.find_first_of(";,", at);
    all.push_back(word_before(source, at) + source.substr(at, last - at));
  }
  return all;
}

// Plans of random problems, as long as they bring pairs of parameters that no other had
class Pairs {
 public:
  // Whether the plan brings any
  bool take(const std::string& source) {
    const std::vector<std::string> all = parameters_in(source);
    bool brings = false;
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = i + 1; j < all.size(); ++j) brings |= seen_.insert(all[i] + "|" + all[j]).second;
    return brings;
  }
  std::size_t count() const { return seen_.size(); }

 private:
  std::set<std::string> seen_;
};

void add_pairs(std::vector<jit::Request>& all) {
  Pairs pairs;
  Refusals refusals;
  const std::vector<Case> cases = broad_cases(options().seed, options().broad > 0 ? options().broad : 1600, refusals);
  const std::size_t before = all.size();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const lower::Problem problem = lower::analyse(cases[i].contraction(), graph_of(cases[i]), cases[i].options).value();
    for (const plan::Device& device : planned_for())
      for (const families::PlanPointer& plan : legal_plans(problem, device)) {
        jit::Request request = request_of(cases[i], problem, plan, device);
        if (pairs.take(request.source)) all.push_back(std::move(request));
      }
    if (i % 100 == 99) {
      std::printf("%zu of %zu problems: %zu plans have all %zu pairs\n", i + 1, cases.size(), all.size() - before,
                  pairs.count());
      std::fflush(stdout);
    }
  }
}

// NVRTC's option by which a source goes through the language's front end, templates and all, and no further
constexpr const char* no_machine_code = "-dlto";

class Walk {
 public:
  explicit Walk(fs::path folder) : folder_(std::move(folder)), done_file_(folder_ / "done.txt") {
    fs::create_directories(folder_);
    std::ifstream file(done_file_);
    for (std::string key; file >> key;) done_.insert(key);
  }

  // First whether the language of each is right, where static assertions are, a fifth of the time; then machine code
  int run(const std::vector<jit::Request>& all) {
    std::vector<jit::Request> language = all;
    for (jit::Request& r : language) r.options.push_back(no_machine_code);
    const int first = run(std::move(language), "language"), second = run(all, "machine code");
    return std::max(first, second);
  }

 private:
  int run(std::vector<jit::Request> all, const char* what) {
    std::vector<std::pair<std::string, jit::Request>> left;
    for (jit::Request& r : all) {
      std::string key = support::hash(r.source + headers_) + (r.options.empty() ? "" : no_machine_code);
      if (!done_.contains(key)) left.emplace_back(std::move(key), std::move(r));
    }
    // any part of them is a sample of all
    std::sort(left.begin(), left.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    std::printf("%s: %zu kernels, %zu of them compiled before\n", what, all.size(), all.size() - left.size());
    std::fflush(stdout);
    const int jobs = options().jobs > 0 ? options().jobs : static_cast<int>(std::thread::hardware_concurrency());
    const std::size_t before = done();
    for (int i = 0; i < jobs; ++i) start(left, static_cast<std::size_t>(i), static_cast<std::size_t>(jobs));
    return finish(left.size(), before);
  }

  // NVRTC locks its front end: processes, no threads
  void start(const std::vector<std::pair<std::string, jit::Request>>& left, std::size_t first, std::size_t of) {
    const pid_t child = ::fork();
    if (child < 0) throw UserError("cannot start a process to compile in");
    if (child > 0) {
      children_.push_back(child);
      return;
    }
    int code = 0;
    try {
      const auto compiler = jit::make_nvrtc({});
      for (std::size_t i = first; i < left.size() && is_time_left(); i += of)
        if (!compile(*compiler, left[i].first, left[i].second)) code = 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      code = 2;
    }
    std::fflush(nullptr);
    ::_exit(code);
  }

  bool is_time_left() const {
    return options().seconds == 0 || Clock::now() - start_ < std::chrono::seconds(options().seconds);
  }

  bool compile(jit::Compiler& compiler, const std::string& key, const jit::Request& request) {
    const jit::Compiled made = compiler.compile(request);
    if (made.accepted && (!made.kernels.empty() || !request.options.empty())) {
      std::ofstream(done_file_, std::ios::app) << key + "\n" << std::flush;
      return true;
    }
    support::replace_file(folder_ / (key + ".cu"), request.source);
    support::replace_file(folder_ / (key + ".log"), request.title + "\n" + made.command + "\n" + made.log);
    std::printf("FAILED %s\n%s\n", request.title.c_str(), (folder_ / (key + ".log")).c_str());
    std::fflush(stdout);
    return false;
  }

  std::size_t done() const {
    std::ifstream file(done_file_);
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
  }

  int finish(std::size_t count, std::size_t before) {
    bool good = true;
    auto shown = Clock::now();
    while (!children_.empty()) {
      int status = 0;
      const pid_t ended = ::waitpid(-1, &status, WNOHANG);
      if (ended > 0) std::erase(children_, ended), good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
      if (ended <= 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (Clock::now() - shown < std::chrono::seconds(30)) continue;
      shown = Clock::now();
      show(done() - before, count);
    }
    show(done() - before, count);
    return good ? 0 : 1;
  }

  void show(std::size_t done, std::size_t count) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    std::printf("%zu of %zu compiled, %.0f s; %.1f a second\n", done, count, seconds,
                static_cast<double>(done) / std::max(seconds, 1.0));
    std::fflush(stdout);
  }

  static std::string text_of_headers() {
    std::string text;
    for (const jit::Header& h : lower::device_headers()) text += h.text;
    return support::hash(text);
  }

  const fs::path folder_, done_file_;
  const std::string headers_ = text_of_headers();  // what a kernel is made of, too
  const Clock::time_point start_ = Clock::now();
  std::set<std::string> done_;
  std::vector<pid_t> children_;
};

}  // namespace

int draw_plans() {
  const std::vector<jit::Request> drawn = drawn_plans();
  const fs::path folder = fs::temp_directory_path() / fmt::format("unisono_plans.{}", ::getpid());
  fs::create_directories(folder);
  int failures = 0;
  if (checked_by_host(drawn, folder).exit_code != 0) {
    failures = list_failures(drawn, folder);
    if (failures == 0) {
      std::printf("FAILED all in one file: %s\n%s\n", (folder / "plans.cpp").c_str(),
                  checked_by_host(drawn, folder).output.c_str());
      return 1;
    }
  }
  fs::remove_all(folder);
  std::printf("%zu kernels, %d do not compile; again: unisono_gpu_tests --plans %d --seed %llu --syntax '%s'\n",
              drawn.size(), failures, options().plans, static_cast<unsigned long long>(options().seed),
              options().syntax.c_str());
  return failures == 0 ? 0 : 1;
}

int walk_plans() {
  std::vector<jit::Request> all = products_and_tensors();
  std::printf("%zu kernels of products, attention and tensors\n", all.size());
  std::fflush(stdout);
  if (options().broad >= 0) add_pairs(all);
  std::erase_if(all, [](const jit::Request& r) { return r.title.find(options().only) == std::string::npos; });
  return Walk(options().walk).run(std::move(all));
}

}  // namespace unisono::gpu
