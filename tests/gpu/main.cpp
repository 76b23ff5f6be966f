// unisono_gpu_tests: all tests that need a GPU, as one program that can be carried to it.

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "gpu/broad_run.hpp"
#include "gpu/case.hpp"
#include "gpu/device.hpp"
#include "gpu/endurance.hpp"
#include "gpu/evt.hpp"
#include "gpu/kernels.hpp"
#include "gpu/moments.hpp"
#include "gpu/networks.hpp"
#include "gpu/options.hpp"
#include "gpu/plans.hpp"
#include "gpu/testbed.hpp"
#include "lower/lower.hpp"
#include "passes/passes.hpp"
#include "support/hash.hpp"
#include "support/subprocess.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {

namespace {

Options parsed;

// Every kernel of every test, each once
std::vector<jit::Request> all_requests() {
  std::vector<jit::Request> requests{kernels_request(planning_device())};
  if (options().evt) return requests_of(evt_cases(options().seed));
  if (options().broad > 0) return requests_of(options().delays ? broad_endurance_cases() : chosen_broad_cases());
  std::set<std::string> seen;
  const auto add = [&](jit::Request r) {
    if (r.title.find(options().only) == std::string::npos) return;
    if (seen.insert(r.source).second) requests.push_back(std::move(r));
  };
  std::size_t problems = 0;
  std::map<std::string, int> kinds;
  for (const Case& c : all_cases(options().seed)) {
    const lower::Lowered k = kernel_of(c, planning_device());
    if (const std::string_view name = k.plan().family->name(); name == "plain" || name == "mma") {
      add(k.request()), ++problems, ++kinds[fmt::format("by family {}", name)];
      continue;
    }
    const auto* strips = dynamic_cast<const families::sm90_depthwise::DepthwisePlan*>(&k.plan());
    const families::sm90_conv::ConvConfig f = conv_config(k.plan());
    static constexpr const char* modes[] = {"not normalised", "resident", "streamed", "rows", "general"};
    ++kinds[static_cast<std::size_t>(f.mode()) < std::size(modes) ? modes[static_cast<std::size_t>(f.mode())]
                                                                  : "another mode"];
    if (strips == nullptr) ++kinds[std::string(families::sm90::to_string(f.schedule.order))];
    ++kinds[strips         ? strips->config.strip.taps_h > 0 ? "depthwise" : "depthwise, of any filter"
            : f.gathered() ? "by ordinary loads"
            : f.loads(families::sm90_conv::Im2colTile::Box::columns) ? "by boxes"
            : f.two_dimensional()                                    ? "by halo tiles"
                                                                     : "by im2col tiles"];
    if (f.gathered() && f.gathered()->direct) ++kinds["without matrix instructions"];
    if (f.gathered() && f.gathered()->filters) ++kinds["filters by ordinary loads"];
    if (f.features.stores == families::sm90::Stores::plain) ++kinds["by plain stores"];
    if (f.features.stores == families::sm90::Stores::planes) ++kinds["stored as planes"];
    if (f.schedule.split) ++kinds["split-K"];
    if (f.features.resampling.pooled) ++kinds["pooled"];
    if (f.features.resampling.upsampled) ++kinds[f.features.resampling.only ? "upsampled only" : "upsampled"];
    if (f.features.fetch.value_or(0) > 0) ++kinds[fmt::format("fetching {}", *f.features.fetch)];
    if (f.features.moments > 0) ++kinds["with moments"];
    if (f.schedule.swap) ++kinds["operands swapped"];
    if (f.window()) ++kinds["im2col in shared memory"];
    if (f.schedule.cluster.ctas() > 1) ++kinds["in clusters"];
    add(k.request());
    ++problems;
  }
  for (const Case& c : plan_cases()) {
    const lower::Problem problem = lower::analyse(c.contraction(), graph_of(c), c.options).value();
    for (const families::PlanPointer& p : sample_of_plans(problem))
      add(lower::lower(problem, p, planning_device()).value().request()), ++problems;
  }
#ifdef UNISONO_NETWORK_TESTS
  for (jit::Request& r : network_requests()) add(std::move(r)), ++problems;
#endif
  std::printf("%zu problems, %zu kernels, planned for %s\n", problems, requests.size(), planning_device().name.c_str());
  for (const auto& [kind, count] : kinds) std::printf("  %4d %s\n", count, kind.c_str());
  return requests;
}

// A kernel of CUTLASS's takes a compiler as long as many of ours
void show_progress(std::size_t done, std::size_t total, const std::string& title) {
  if (options().evt || done % 20 == 0 || done == total)
    std::fprintf(stderr, "%zu of %zu: %s\n", done, total, title.c_str());
}

jit::Jit& precompiler() {
  if (parsed.jobs == 0) return compiler();
  static jit::Jit own([] {
    jit::Settings settings;
    settings.jobs = parsed.jobs;
    return settings;
  }());
  return own;
}

// The rest is in the cache by now
int list_failures(const std::vector<jit::Request>& requests) {
  int failures = 0;
  for (const jit::Request& r : requests) {
    try {
      const jit::Binary made = precompiler().compile(r);
      if (options().verbose) std::printf("kernel %s: %s\n", made.key.c_str(), r.title.c_str());
    } catch (const CompileError& error) {
      std::printf("FAILED %s\n%s\n", r.title.c_str(), error.what());
      ++failures;
    }
  }
  std::printf("%d of %zu kernels do not compile\n", failures, requests.size());
  return 1;
}

// Process I of N: {I, N}
std::optional<std::pair<std::size_t, std::size_t>> shard_of(const std::string& text) {
  std::size_t first = 0, of = 0;
  char end = 0;
  if (std::sscanf(text.c_str(), "%zu/%zu%c", &first, &of, &end) != 2 || first >= of) return std::nullopt;
  return std::pair{first, of};
}

template <typename T>
std::vector<T> in_shard(std::vector<T> all) {
  if (options().shard.empty()) return all;
  const auto [first, of] = *shard_of(options().shard);
  std::vector<T> own;
  for (std::size_t i = first; i < all.size(); i += of) own.push_back(std::move(all[i]));
  return own;
}

// A hash of each kernel, by which two revisions are compared
void list_texts(const std::vector<jit::Request>& requests) {
  for (const jit::Request& r : requests) std::printf("text %s: %s\n", support::hash(r.source).c_str(), r.title.c_str());
}

int precompile() {
  const auto requests = in_shard(all_requests());
  if (requests.empty()) {
    std::printf("no kernel's title has the text '%s', or the shard %s has none\n", parsed.only.c_str(),
                parsed.shard.empty() ? "0/1" : parsed.shard.c_str());
    return 1;
  }
  std::vector<jit::Binary> binaries;
  try {
    binaries = precompiler().compile(requests, show_progress);
  } catch (const CompileError&) {
    return list_failures(requests);
  }
  if (options().verbose)
    for (std::size_t i = 0; i < binaries.size(); ++i)
      std::printf("kernel %s: %s\n", binaries[i].key.c_str(), requests[i].title.c_str());
  std::size_t spills = 0, bytes = 0, injected = 0;
  for (std::size_t i = 0; i < binaries.size(); ++i) {
    const jit::Resources& r = binaries[i].resources;
    bytes += binaries[i].cubin.size();
    if (r.injected_waits != 0) {
      ++injected;
      std::printf("FAILED %zu waits of the assembler's between matrix instructions: %s\n", r.injected_waits,
                  requests[i].title.c_str());
    }
    if (r.spill_store_bytes + r.spill_load_bytes == 0) continue;
    ++spills;
    std::printf("spills: %zu bytes stored, %zu loaded: %s\n", r.spill_store_bytes, r.spill_load_bytes,
                requests[i].title.c_str());
  }
  std::printf("%zu kernels, %.1f MB of binaries, %zu with spills; in %s\n", binaries.size(),
              static_cast<double>(bytes) / 1e6, spills, binaries[0].entry.parent_path().c_str());
  return injected == 0 ? 0 : 1;
}

// Other processes that compile the same kernels into the same cache, one for each eight cores above the first eight: of
// one process's threads no more than about seven are at work, as NVRTC locks its front end (docs/notes/jit.md).
std::vector<std::jthread> compile_beside() {
  const std::string program = std::filesystem::canonical("/proc/self/exe");
  const std::vector<std::string> arguments{program,      "--precompile",
                                           "--jobs",     "8",
                                           "--seed",     std::to_string(parsed.seed),
                                           "--families", std::to_string(parsed.families)};
  std::vector<std::jthread> processes;
  for (unsigned cores = 8; cores < std::thread::hardware_concurrency(); cores += 8)
    processes.emplace_back([arguments] { support::run({arguments, {}}); });  // what fails there fails here, too
  return processes;
}

// All tests, while the other threads of the machine compile the kernels of those that are still to come: a test that
// needs a kernel in the making waits for it.
int run_all_tests() {
  if (testing::GTEST_FLAG(filter) != "*" || testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  const std::vector<std::jthread> processes = compile_beside();
  std::future<int> ahead = std::async(std::launch::async, precompile);
  const int failed = RUN_ALL_TESTS();
  return ahead.get() + failed == 0 ? 0 : 1;
}

int sanitizer() {
  int wrong = 0, checked = 0;
  for (const Case& c : in_shard(sanitizer_cases())) {
    if (c.options.plan.find(options().only) == std::string::npos) continue;
    ++checked;
    const std::string problems = Testbed(c).check();
    std::printf("%s: %s\n", c.options.plan.empty() ? "any plan" : c.options.plan.c_str(),
                problems.empty() ? "ok" : problems.c_str());
    wrong += !problems.empty();
    if (wrong > 0 && options().first_failure) return 1;
  }
  if (checked == 0)
    std::printf("no problem's plan has the text '%s'; without --only all are checked\n", options().only.c_str());
  return wrong == 0 && checked > 0 ? 0 : 1;
}

int act(int argc, char** argv) {
  CLI::App app("Tests of Unisono on a GPU. Options of GoogleTest (--gtest_filter=…) are taken as well.",
               "unisono_gpu_tests");
  app.add_option("--seed", parsed.seed, "Of everything that is random")->capture_default_str();
  app.add_option("--families", parsed.families, "Of random problems, with 8 shapes each")->capture_default_str();
  app.add_option("--replays", parsed.replays, "Of the tests of many replays")
      ->check(CLI::Range(200, 100'000'000))
      ->capture_default_str();
  app.add_option("--device", parsed.device, "Which GPU")->capture_default_str();
  app.add_option("--endurance", parsed.endurance,
                 "So many launches on two streams beside a busy one, instead of the tests");
  app.add_flag("--delays", parsed.delays, "Endurance: kernels with random delays and a watchdog");
  app.add_option("--processes", parsed.processes, "Endurance: so many processes at once")->check(CLI::Range(1, 64));
  app.add_flag("--precompile", parsed.precompile,
               "Compile all kernels into the cache (UNISONO_CACHE_DIR); needs no GPU");
  app.add_flag("--plan", parsed.plan, "Plan all problems and count their kernels; needs neither GPU nor compiler");
  app.add_flag("--sanitizer", parsed.sanitizer, "A small problem of each mode, for compute-sanitizer");
  app.add_flag("--first-failure", parsed.first_failure, "--sanitizer ends at the first problem that fails");
  app.add_option(
      "--only", parsed.only,
      "Of --sanitizer the problems whose plan has this text; of --precompile the kernels whose title has it");
  app.add_option("--broad", parsed.broad, "So many random problems of every kind, instead of the tests");
  app.add_flag("--evt", parsed.evt,
               "Graphs by CUTLASS's visitors, instead of the tests; with --precompile or --plan those alone");
  app.add_option(
         "--arch", parsed.arch,
         "Of --evt the graphs of one architecture; of sm100a and sm120 --precompile compiles 40, and nothing runs")
      ->check(CLI::IsMember({"sm90a", "sm80", "sm100a", "sm120"}));
  app.add_option(
         "--jobs", parsed.jobs,
         "Of --precompile: so many compilations at once, in this process; 0: one a core, in as many processes as "
         "that takes")
      ->check(CLI::Range(0, 1024));
  app.add_option(
         "--shard", parsed.shard,
         "I/N: of --precompile every N-th kernel, of --sanitizer every N-th problem, from the I-th on (0 to N - 1)")
      ->check(CLI::Validator([](const std::string& text) { return shard_of(text) ? "" : "expected I/N, such as 0/16"; },
                             "I/N"));
  app.add_option("--broad-case", parsed.broad_case, "One of these, by its number");
  app.add_option("--broad-first", parsed.broad_first, "Of --broad the cases from this number on");
  app.add_option("--seconds", parsed.seconds, "--broad and --endurance end after so many");
  app.add_flag("--small", parsed.small, "Of --broad no problem that is too large for the emulated GPU");
  app.add_flag("--verbose", parsed.verbose,
               "Of --broad: print each problem before it runs; of --precompile: each kernel's place in the cache; of "
               "--plan: each "
               "kernel's text as a hash, by which revisions can be compared");
  CLI::Option* const syntax =
      app.add_option("--syntax", parsed.syntax, "Of --plans: the host's compiler, and its options");
  app.add_option("--plans", parsed.plans,
                 "Draw so many kernels that planners may choose, and compile them; needs no GPU")
      ->check(CLI::Range(1, 100'000))
      ->needs(syntax);
  app.add_option(
      "--walk", parsed.walk,
      "Compile all kernels that planners may choose by NVRTC, in --jobs processes; the folder keeps what was "
      "done. Of convolutions the pairs of parameters, of --broad problems. Needs no GPU");
  CLI11_PARSE(app, argc, argv);
  if (parsed.plans > 0) return draw_plans();
  if (!parsed.walk.empty()) return walk_plans();
  if (parsed.plan) {
    const auto requests = all_requests();
    if (parsed.verbose) list_texts(requests);
    if (parsed.evt) return list_evt();
    return requests.size() > 100 ? 0 : 1;
  }
  if (parsed.precompile) {
    const bool by_all_cores = parsed.jobs == 0 && parsed.shard.empty() && parsed.only.empty() && !parsed.evt;
    const std::vector<std::jthread> processes = by_all_cores ? compile_beside() : std::vector<std::jthread>{};
    return precompile();
  }
  choose_device(parsed.device);
  std::printf("%s\n", device().device.name.c_str());
  if (parsed.sanitizer) return sanitizer();
  if (parsed.endurance > 0) return run_endurance(argv[0]);
  const auto compile = [](const auto& requests) { compiler().compile(requests, show_progress); };
  if (parsed.evt) {
    if (parsed.arch == "sm100a" || parsed.arch == "sm120")
      throw UserError(fmt::format("--arch {}: its kernels are compiled, never run; add --precompile", parsed.arch));
    return run_evt(compile);
  }
  if (parsed.broad > 0 || parsed.broad_case >= 0) return run_broad(compile);
  return run_all_tests();
}

}  // namespace

const Options& options() { return parsed; }

}  // namespace unisono::gpu

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    return unisono::gpu::act(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unisono_gpu_tests: %s\n", error.what());
    return 2;
  }
}
