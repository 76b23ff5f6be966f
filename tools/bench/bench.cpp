#include "bench/bench.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <deque>

#include "bench/contest.hpp"
#include "bench/listing.hpp"
#include "bench/once.hpp"
#include "gpu/device.hpp"
#include "runtime/cuda/driver_version.hpp"
#include "support/files.hpp"
#include "support/subprocess.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

namespace {

using nlohmann::json;

std::string driver_version() {
  int version = 0;
  cuda::check(cuda::driver().cuDriverGetVersion(&version), "asking for the driver's version");
  return cuda::driver_text(cuda::kernel_module_version(), version);
}

std::string commit_of(const Options& options) {
  if (!options.commit.empty()) return options.commit;
  const auto outcome = support::run({.arguments = {"/usr/bin/env", "git", "rev-parse", "HEAD"}, .folder = {}});
  return outcome.exit_code == 0 ? outcome.output.substr(0, outcome.output.find('\n')) : "unknown";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm t{};
  ::gmtime_r(&now, &t);
  return fmt::format("{:04}-{:02}-{:02}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
}

int attribute(CUdevice_attribute which) {
  int value = 0;
  cuda::check(cuda::driver().cuDeviceGetAttribute(&value, which, gpu::device().handle),
              "asking the GPU for an attribute");
  return value;
}

/// A suite on its way: what has been measured, and what is still being compared.
class Progress {
 public:
  Progress(const Suite& suite, json head, std::filesystem::path out, bool resume)
      : suite_(suite), file_(std::move(out)), head_(std::move(head)) {
    results_.resize(suite.cases.size());
    if (resume) take_over();
  }

  bool has(std::size_t i) const { return !results_[i].is_null(); }
  const json& head() const { return head_; }

  /// So that a case at which the process ends is known as such.
  void begin(std::size_t i) {
    Result interrupted;
    interrupted.error = "the process ended while this case was running";
    results_[i] = to_json(suite_.cases[i], interrupted, false);
    write();
  }

  void end(std::size_t i, Contest contest, bool with_plans) {
    with_plans_ = with_plans;
    results_[i] = to_json(suite_.cases[i], contest.result, with_plans);
    write();
    if (contest.checking.valid()) pending_.push_back({i, std::move(contest)});
    while (pending_.size() > 2) collect();  // a comparison holds some GB
  }

  void finish() {
    while (!pending_.empty()) collect();
  }

  json suite_json() const {
    json j = head_;
    j["suite"] = suite_.name;
    j["cases"] = json::array();
    for (const json& r : results_)
      if (!r.is_null()) j["cases"].push_back(r);
    return j;
  }

  bool good() const {
    return std::all_of(results_.begin(), results_.end(), [](const json& r) { return !r.is_null() && is_good(r); });
  }

 private:
  void collect() {
    auto [i, contest] = std::move(pending_.front());
    pending_.pop_front();
    try {
      contest.collect();
    } catch (const std::exception& error) {
      contest.result.error = fmt::format("comparing with the reference: {}", error.what());
    }
    results_[i] = to_json(suite_.cases[i], contest.result, with_plans_);
    if (!is_good(results_[i])) fmt::print(stderr, "{}: does not agree with the reference\n", suite_.cases[i].name);
    write();
  }

  void write() const {
    if (!file_.empty()) write_json(file_, suite_json());
  }

  // Results of an earlier run, for cases that are still the same, and its ceilings
  void take_over() {
    const auto text = support::read_file(file_);
    if (!text) return;
    const json before = json::parse(*text, nullptr, false);
    if (!before.is_object() || !before.contains("cases"))
      throw UserError(fmt::format("--resume: {} holds no results of this program", file_.string()));
    for (std::size_t i = 0; i < results_.size(); ++i)
      for (const json& r : before["cases"])
        if (r.value("name", "") == suite_.cases[i].name && r.value("text", "") == suite_.cases[i].text) results_[i] = r;
  }

  const Suite& suite_;
  std::filesystem::path file_;
  json head_;
  std::vector<json> results_;
  struct Pending {
    std::size_t index;
    Contest contest;
  };
  std::deque<Pending> pending_;
  bool with_plans_ = false;
};

json head_of(const Options& options, const Ceilings& ceilings, const Peers& peers) {
  json j{{"gpu", gpu::device().device.name},
         {"driver", driver_version()},
         {"commit", commit_of(options)},
         {"date", today()},
         {"ceilings",
          {{"matmul_tflops", ceilings.matmul_tflops},
           {"matmul_source", ceilings.matmul_source},
           {"copy_tbps", ceilings.copy_tbps},
           {"copy_source", ceilings.copy_source}}},
         {"l2_bytes", attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)},
         {"rounds", options.rounds},
         {"replays", options.replays},
         {"rest_s", options.rest},
         {"pause_s", options.pause},
         {"plans_tried", options.sweep ? json("all") : json(options.plans)}};
  j["cudnn"] = peers.cudnn ? peers.cudnn->version() : options.cudnn ? "absent: " + peers.cudnn_error : "not asked for";
  j["cublaslt"] = peers.cublaslt  ? peers.cublaslt->version()
                  : options.cudnn ? "absent: " + peers.cublaslt_error
                                  : "not asked for";
  if (peers.beside) j.update(peers.beside->about());
  return j;
}

Peers open_peers(const Options& options) {
  Peers peers;
  if (!options.beside.empty()) try {
      peers.beside = std::make_unique<PeerProgram>(options.beside, options.beside_limit);
    } catch (const PeerFailed& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
  if (!options.cudnn) return peers;
  try {
    peers.cublaslt = std::make_unique<Cublaslt>(options.libraries);
  } catch (const UserError& error) {
    peers.cublaslt_error = error.what();
    fmt::print(stderr, "cuBLASLt will not take part: {}\n", error.what());
  }
  try {
    peers.cudnn = std::make_unique<Cudnn>(options.libraries);
  } catch (const UserError& error) {
    peers.cudnn_error = error.what();
    fmt::print(stderr, "cuDNN will not take part: {}\n", error.what());
  }
  return peers;
}

std::filesystem::path file_of(const Options& options, const Suite& suite, bool several) {
  if (options.out.empty()) return {};
  return several || std::filesystem::is_directory(options.out) ? options.out / (suite.name + ".json") : options.out;
}

struct PreparedSuites {
  std::vector<std::vector<Prepared>> suites;
  Compilation compiled;
};

PreparedSuites prepare_all(const std::vector<Suite>& suites, const plan::Device& device, const Options& options) {
  std::vector<std::vector<Prepared>> all;
  std::vector<const Variants*> to_compile;
  for (const Suite& s : suites) {
    auto& mine = all.emplace_back();
    for (const Case& c : s.cases) mine.push_back(prepare(c, device, options));
    for (const Prepared& p : mine) {
      if (!p.error.empty()) fmt::print(stderr, "{}: {}\n", p.c->name, p.error);
      if (p.variants) to_compile.push_back(&*p.variants);
      if (p.bare) to_compile.push_back(&*p.bare);
      for (const Prepared::Rival& r : p.rivals) {
        if (!r.error.empty()) fmt::print(stderr, "{}, {}: {}\n", p.c->name, r.name, r.error);
        if (r.variants) to_compile.push_back(&*r.variants);
      }
    }
  }
  Compilation compiled = compile_all(to_compile, device, options.jobs);
  for (const std::string& failure : compiled.failures) fmt::print(stderr, "does not compile: {}\n", failure);
  return {std::move(all), std::move(compiled)};
}

std::size_t count_refused(const std::vector<std::vector<Prepared>>& prepared) {
  std::size_t refused = 0;
  for (const auto& suite : prepared)
    for (const Prepared& p : suite) {
      refused += !p.error.empty();
      for (const Prepared::Rival& r : p.rivals) refused += !r.error.empty();
    }
  return refused;
}

int precompile(const std::vector<Suite>& suites, const Options& options) {
  const auto [prepared, compiled] = prepare_all(suites, plan::Device{}, options);
  if (compiled.unkept > 0)
    throw UserError(fmt::format("{} of {} kernels could not be kept: {}", compiled.unkept, compiled.kernels,
                                fmt::join(compiled.warnings, "; ")));
  const std::size_t refused = count_refused(prepared), failed = compiled.failures.size();
  print(
      fmt::format("{} kernels of {} suites are in the cache, the bench's own among them; {} do not compile, {} cases "
                  "refused\n",
                  compiled.kernels - failed, suites.size(), failed, refused));
  return refused + failed == 0 ? 0 : 1;
}

/// Returns false if the GPU's context broke.
bool run_suite(const Suite& suite, const std::vector<Prepared>& prepared, const Ceilings& ceilings, Peers& peers,
               const Options& options, Progress& progress) {
  for (std::size_t i = 0; i < suite.cases.size(); ++i) {
    if (progress.has(i)) continue;
    fmt::print(stderr, "[{} {}/{}] {}\n", suite.name, i + 1, suite.cases.size(), suite.cases[i].name);
    progress.begin(i);
    try {
      Contest contest = run_contest(prepared[i], suite.name, ceilings, peers, options);
      if (!contest.result.error.empty()) fmt::print(stderr, "  {}\n", contest.result.error);
      progress.end(i, std::move(contest), options.sweep || options.plans > 1);
    } catch (const DeviceError& error) {
      fmt::print(stderr, "  {}\n", error.what());
      Contest broken;
      broken.result.error = error.what();
      progress.end(i, std::move(broken), false);
      progress.finish();
      return false;
    }
  }
  progress.finish();
  return true;
}

}  // namespace

int run(const Options& options) {
  const std::vector<Suite> suites = read_suites(options);
  if (options.list) return list(suites);
  if (options.precompile) return precompile(suites, options);
  gpu::choose_device(options.gpu);
  const auto prepared = prepare_all(suites, gpu::device().device, options).suites;
  Peers peers = open_peers(options);
  if (options.once) {
    bool ran = true;
    for (const auto& suite : prepared)
      for (const Prepared& p : suite) ran = run_once(p, peers, options) && ran;
    return ran ? 0 : 1;
  }
  const Ceilings ceilings = measure_ceilings(options.matmul_tflops, options.copy_tbps, options.libraries);
  fmt::print(stderr, "ceilings: {:.0f} TFLOP/s ({}), {:.2f} TB/s\n", ceilings.matmul_tflops, ceilings.matmul_source,
             ceilings.copy_tbps);
  const json head = head_of(options, ceilings, peers);
  bool good = true, whole = true;
  for (std::size_t i = 0; i < suites.size() && whole; ++i) {
    Progress progress(suites[i], head, file_of(options, suites[i], suites.size() > 1), options.resume);
    whole = run_suite(suites[i], prepared[i], ceilings, peers, options, progress);
    good = good && progress.good();
    print(table(progress.suite_json()));
  }
  return !whole ? 5 : good ? 0 : 1;
}

}  // namespace unisono::bench
