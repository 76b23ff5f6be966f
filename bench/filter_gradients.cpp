// unisono_bench_filter_gradients: times filter gradients (wgrad) against cuDNN for the shapes in files of bench/cases.
// Compares 48 elements of each kind of plan with float64. Prints a table and writes JSON.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "bench/cases.hpp"
#include "bench/ceilings.hpp"
#include "bench/cudnn.hpp"
#include "bench/data.hpp"
#include "bench/replays.hpp"
#include "gpu/device.hpp"
#include "gpu/filter_gradient.hpp"
#include "gpu/kernels.hpp"
#include "support/float_convert.hpp"
#include "support/subprocess.hpp"
#include "unisono/error.hpp"

namespace {

using namespace unisono;
using nlohmann::json;

struct Options {
  std::string cases, out, only, commit;
  std::string probe;  // a case whose engines of cuDNN's this process runs, from `from` on
  int from = 0;
  std::filesystem::path libraries;
  bool precompile = false, sweep = false, timing = true;
  double matmul_tflops = 0, copy_tbps = 0;
};

FilterGradient2d gradient_of(const Conv2d& c) {
  return {.n = c.n,
          .h = c.h,
          .w = c.w,
          .c = c.c,
          .k = c.k,
          .r = c.r,
          .s = c.s,
          .stride = c.stride,
          .pad = c.pad,
          .dilation = c.dilation,
          .dtype_y = c.dtype_x,
          .dtype_x = c.dtype_x};
}

products::FilterGradientProblem problem_of(const Conv2d& c) {
  const Extents e = extents(Contraction(c));
  products::FilterGradientProblem problem{.taps = c.r * c.s, .element = c.dtype_x};
  FilterGradientParams& p = problem.extents;
  const auto set = [](int& to, std::int64_t x) { to = static_cast<int>(x); };
  p.x_pixel = c.c, p.g_pixel = c.k, p.result_tap = c.c, p.result_filter = problem.taps * c.c;
  set(p.height, c.h), set(p.width, c.w), set(p.out_height, e.height), set(p.out_width, e.width);
  set(p.pixels, e.rows()), set(p.filters, c.k), set(p.channels, c.c), set(p.taps_w, c.s);
  set(p.stride_h, c.stride.h), set(p.stride_w, c.stride.w), set(p.pad_h, c.pad.top), set(p.pad_w, c.pad.left);
  set(p.dilation_h, c.dilation.h), set(p.dilation_w, c.dilation.w);
  p.groups = 1;
  return problem;
}

// One plan of a case, bound to every set of operands
struct Ours {
  gpu::FilterGradientWay way;
  std::string how;
  int launches = 1;
  std::vector<bench::Enqueue> sets;
  double glance_us = 0;
};

Ours ours_of(const Conv2d& conv, const gpu::FilterGradientWay& way,
             const std::vector<std::unique_ptr<bench::Data>>& sets) {
  products::FilterGradientProblem problem = problem_of(conv);
  gpu::filter_gradient_ways(problem, gpu::device().device);  // completes it
  gpu::FilterGradientKernels kernels(problem, way, gpu::device().device);
  kernels.load();
  Ours ours{way, kernels.how(), kernels.launches(), {}};
  std::shared_ptr<gpu::Buffer> partials;  // for all executions, which follow one another
  if (kernels.launches() > 1)
    partials = std::make_shared<gpu::Buffer>(static_cast<std::size_t>(kernels.partial_bytes()));
  for (const auto& data : sets) {
    const auto launches = kernels.bind({.x = data->buffer("b").data(),
                                        .g = data->buffer("a").data(),
                                        .result = data->arguments().outputs.begin()->second.data,
                                        .partials = partials ? partials->data() : nullptr});
    ours.sets.emplace_back([launches, partials](CUstream stream) {
      for (const Launch& l : launches) l.enqueue(stream);
    });
  }
  return ours;
}

double value_of(const std::vector<std::byte>& bytes, std::int64_t i) {
  std::uint16_t word = 0;
  std::memcpy(&word, bytes.data() + 2 * i, 2);
  return support::bf16_to_float(word);
}

// The largest error of some elements over its bound
double error_of(const Conv2d& c, const bench::Data& data, const std::vector<std::byte>& result) {
  const Extents e = extents(Contraction(c));
  const std::vector<std::byte> g = data.buffer("a").contents(), x = data.buffer("b").contents();
  std::mt19937_64 random(7);
  double worst = 0;
  for (int i = 0; i < 48; ++i) {
    const auto draw = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    };
    const std::int64_t k = draw(c.k), r = draw(c.r), s = draw(c.s), channel = draw(c.c);
    double sum = 0, size = 0;
    for (std::int64_t n = 0; n < c.n; ++n)
      for (std::int64_t p = 0; p < e.height; ++p)
        for (std::int64_t q = 0; q < e.width; ++q) {
          const std::int64_t h = p * c.stride.h - c.pad.top + r * c.dilation.h,
                             w = q * c.stride.w - c.pad.left + s * c.dilation.w;
          if (h < 0 || h >= c.h || w < 0 || w >= c.w) continue;
          const double term = value_of(g, ((n * e.height + p) * e.width + q) * c.k + k) *
                              value_of(x, ((n * c.h + h) * c.w + w) * c.c + channel);
          sum += term, size += std::abs(term);
        }
    const double got = value_of(result, ((k * c.r + r) * c.s + s) * c.c + channel);
    worst = std::max(worst, std::abs(got - sum) / (0x1p-8 * std::abs(sum) + 1e-6 * size));
  }
  return worst;
}

// How a plan computes, apart from how it shares out its work
std::string kind_of(const gpu::FilterGradientWay& way) {
  if (const auto* plan = std::get_if<products::Sm90FilterGradientPlan>(&way))
    return fmt::format("{} {}x{}", plan->halo ? "halo" : "pixels", plan->rows(), plan->tile_slabs());
  const auto& plan = std::get<products::FilterGradientPlan>(way);
  return fmt::format("mma.sync {}x{}", plan.rows, plan.columns);
}
int parts_of(const gpu::FilterGradientWay& way) {
  return std::visit([](const auto& plan) { return plan.parts; }, way);
}

// Worth a look: of each kind at most five that differ by an eighth in their parts, and none that is predicted to take
// more than 1.7 times as long as the first; but the best-predicted of `mma.sync`, of halo tiles and of pixels always
std::vector<gpu::FilterGradientWay> to_sweep(const std::vector<gpu::FilterGradientWay>& ways) {
  std::vector<gpu::FilterGradientWay> all;
  std::map<std::string, std::vector<int>> seen;
  for (const gpu::FilterGradientWay& way : ways) {
    const std::string kind = kind_of(way), kernel = kind.substr(0, kind.find(' '));
    const bool is_new = !seen.contains(kernel);
    std::vector<int>& parts = seen[kind];
    const auto near = [&](int other) { return std::abs(parts_of(way) - other) < 0.125 * other; };
    if (!is_new &&
        (gpu::clocks_of(way) > 1.7 * gpu::clocks_of(ways[0]) || parts.size() == 5 || std::ranges::any_of(parts, near)))
      continue;
    parts.push_back(parts_of(way)), seen[kernel].push_back(1);
    all.push_back(way);
  }
  return all;
}

struct Chosen {
  Ours first, best;
  std::vector<Ours> kernels;  // the first of `mma.sync`, of halo tiles, of pixels
  json swept = json::array();
};

// The best-predicted plan, and with `sweep` the fastest of many
Chosen choose(const Conv2d& conv, const std::vector<std::unique_ptr<bench::Data>>& sets, const Options& options) {
  products::FilterGradientProblem problem = problem_of(conv);
  const auto ways = gpu::filter_gradient_ways(problem, gpu::device().device);
  Chosen chosen{ours_of(conv, ways[0], sets), ours_of(conv, ways[0], sets), {}};
  std::map<std::string, int> kernels;
  for (const gpu::FilterGradientWay& way : to_sweep(ways)) {
    const std::string kind = kind_of(way);
    if (kernels[kind.substr(0, kind.find(' '))]++ == 0) chosen.kernels.push_back(ours_of(conv, way, sets));
  }
  if (!options.timing) return chosen;
  chosen.first.glance_us = chosen.best.glance_us =
      bench::glance(*bench::replays_of(chosen.first.sets, "the first plan"));
  if (!options.sweep) return chosen;
  for (const gpu::FilterGradientWay& way : to_sweep(ways)) {
    Ours ours = ours_of(conv, way, sets);
    ours.glance_us = bench::glance(*bench::replays_of(ours.sets, ours.how));
    const double predicted = gpu::clocks_of(way) / (1000 * gpu::device().device.clock_ghz);
    fmt::print("    {:<16} {:>3} parts: predicted {:7.1f}, measured {:7.1f} us\n", kind_of(way), parts_of(way),
               predicted, ours.glance_us);
    std::fflush(stdout);
    chosen.swept.push_back({{"plan", ours.how}, {"predicted_us", predicted}, {"us", ours.glance_us}});
    if (ours.glance_us < chosen.best.glance_us) chosen.best = std::move(ours);
  }
  return chosen;
}

// cuDNN's engines are first run by a process of their own: one that ends with an illegal address takes the GPU's
// context of its process with it.
struct Engines {
  std::map<int, double> times;  // of those that run
  std::vector<int> broken;
  std::string error;
};

void probe_engines(const bench::Case& c, const Options& options) {
  bench::Cudnn cudnn(options.libraries);
  std::vector<std::unique_ptr<bench::Data>> sets;
  for (unsigned i = 0; i < 2; ++i)
    sets.push_back(std::make_unique<bench::Data>(gradient_of(c.conv), c.conv.dtype_x, bench::bare_graph(c.conv.dtype_x),
                                                 1 + 1000 * i));
  const auto engines = cudnn.engines(c.conv, bench::Direction::wgrad, sets);
  for (int i = options.from; i < static_cast<int>(engines.size()); ++i) {
    fmt::print("begin {}\n", i), std::fflush(stdout);
    try {
      const auto replays = bench::replays_of(engines[static_cast<std::size_t>(i)].sets, "cuDNN's engine", 300);
      fmt::print("good {} {}\n", i, bench::glance(*replays));
    } catch (const UserError& refused) {
      fmt::print("refused {} {}\n", i, refused.what());
    }
    std::fflush(stdout);
  }
  fmt::print("done\n");
}

Engines probed(const bench::Case& c, const Options& options) {
  Engines engines;
  const auto own = std::filesystem::read_symlink("/proc/self/exe").string();
  for (int from = 0;;) {
    std::vector<std::string> arguments{own, options.cases, "--probe", c.name, "--from", std::to_string(from)};
    if (!options.libraries.empty()) arguments.insert(arguments.end(), {"--libraries", options.libraries.string()});
    const auto said = support::run({.arguments = arguments, .folder = {}});
    std::istringstream lines(said.output);
    int begun = -1;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word;
      int i = 0;
      double us = 0;
      words >> word;
      if (word == "done") return engines;
      if (word == "begin" && words >> i) begun = i;
      if (word == "good" && words >> i >> us) engines.times[i] = us;
      engines.error = line;
    }
    if (begun < 0) return engines;  // `error` is the last line
    fmt::print("    cuDNN's engine {} ended its process: {}\n", begun, engines.error);
    engines.broken.push_back(begun), from = begun + 1;
  }
}

// The fastest of those that ran, or nullptr
std::unique_ptr<bench::Replays> cudnn_of(bench::Cudnn& cudnn, const Conv2d& conv,
                                         const std::vector<std::unique_ptr<bench::Data>>& sets, Engines& engines) {
  const auto fastest = std::ranges::min_element(engines.times, {}, [](const auto& e) { return e.second; });
  if (fastest == engines.times.end()) return nullptr;
  try {
    const auto all = cudnn.engines(conv, bench::Direction::wgrad, sets);
    const bench::Engine& engine = all.at(static_cast<std::size_t>(fastest->first));
    return bench::replays_of(engine.sets, "cuDNN's " + engine.name);
  } catch (const std::exception& failed) {
    engines.error = failed.what();
    return nullptr;
  }
}

std::vector<std::byte> computed(const bench::Enqueue& enqueue, bench::Data& data) {
  data.poison();
  gpu::wait(nullptr, "poisoning");
  enqueue(nullptr);
  gpu::wait(nullptr, "a filter's gradient");
  return data.output(data.arguments().outputs.begin()->first);
}

// Compares every kernel's first plan with float64, and its bits in two runs
void check(json& j, const bench::Case& c, const Chosen& chosen, bench::Data& data) {
  double worst = 0;
  bool repeats = true;
  for (const Ours& ours : chosen.kernels) {
    const auto result = computed(ours.sets[0], data);
    const double error = error_of(c.conv, data, result);
    const bool again = computed(ours.sets[0], data) == result;
    j["checked"].push_back({{"plan", ours.how}, {"error_over_tolerance", error}, {"repeatable", again}});
    if (!(error <= 1) || !again)
      fmt::print("    {}: error {:.2f}{}\n", ours.how, error, again ? "" : ", NOT REPEATABLE");
    worst = std::isnan(error) ? 1e30 : std::max(worst, error);
    repeats = repeats && again;
  }
  j["error_over_tolerance"] = worst, j["repeatable"] = repeats;
}

// The two plans and cuDNN in turn
void time_case(json& j, const bench::Case& c, const Chosen& chosen,
               const std::vector<std::unique_ptr<bench::Data>>& sets, const Options& options, bench::Cudnn* cudnn) {
  std::vector<std::unique_ptr<bench::Replays>> owned;
  owned.push_back(bench::replays_of(chosen.first.sets, "a filter's gradient"));
  owned.push_back(bench::replays_of(chosen.best.sets, "a filter's gradient"));
  Engines engines = cudnn ? probed(c, options) : Engines{.times = {}, .broken = {}, .error = "there is no cuDNN"};
  if (cudnn)
    if (auto theirs = cudnn_of(*cudnn, c.conv, sets, engines)) owned.push_back(std::move(theirs));
  std::vector<bench::Contender*> contenders;
  for (const auto& o : owned) contenders.push_back(o.get());
  const auto times = bench::measure(contenders, {});
  j["unisono_us"] = times[0].us, j["unisono_hot_us"] = times[0].hot, j["spread"] = times[0].spread;
  j["best_us"] = times[1].us, j["best_hot_us"] = times[1].hot;
  for (const int i : engines.broken) j["cudnn_engines_that_fail"].push_back(i);
  if (times.size() > 2)
    j["peers"] = {{"cudnn", times[2].us}}, j["peers_hot"] = {{"cudnn", times[2].hot}};
  else
    j["peer_errors"] = {{"cudnn", engines.error}};
}

json run_case(const bench::Case& c, const Options& options, const bench::Ceilings& ceilings, bench::Cudnn* cudnn) {
  const FilterGradient2d gradient = gradient_of(c.conv);
  const Graph graph = bench::bare_graph(c.conv.dtype_x);
  std::vector<std::unique_ptr<bench::Data>> sets;
  const double bytes = 2.0 * static_cast<double>(element_count(shape_a(gradient)) + element_count(shape_b(gradient)) +
                                                 element_count(shape_mn(gradient)));
  for (int i = 0; i < (options.timing ? bench::rotating_sets(bytes) : 1); ++i)
    sets.push_back(std::make_unique<bench::Data>(gradient, c.conv.dtype_x, graph, 1 + 1000 * static_cast<unsigned>(i)));
  Chosen chosen = choose(c.conv, sets, options);
  json j{
      {"name", c.name}, {"dtype", to_string(c.conv.dtype_x)}, {"flop", flop(Contraction(gradient))}, {"bytes", bytes}};
  check(j, c, chosen, *sets[0]);
  j["plan"] = chosen.first.how, j["launches"] = chosen.first.launches, j["best_plan"] = chosen.best.how;
  j["predicted_us"] = gpu::clocks_of(chosen.first.way) / (1000 * gpu::device().device.clock_ghz);
  j["first_glance_us"] = chosen.first.glance_us, j["best_glance_us"] = chosen.best.glance_us;
  j["swept"] = chosen.swept;
  if (!options.timing) {
    fmt::print("{:<24} error {:.2f}{}  {}\n", c.name, double{j["error_over_tolerance"]},
               j["repeatable"] ? "" : ", NOT REPEATABLE", chosen.first.how);
    return j;
  }
  time_case(j, c, chosen, sets, options, cudnn);
  j["floor_us"] = ceilings.floor_us(flop(Contraction(gradient)), bytes);
  const double us = j["unisono_us"], floor = j["floor_us"], best = j["best_us"];
  const double theirs = j.contains("peers") ? double{j["peers"]["cudnn"]} : std::nan("");
  fmt::print(
      "{:<24} {:8.1f} us (predicted {:.1f}, hot {:.1f}; best plan {:.1f}), cuDNN {:.1f}: {:.2f}x (best {:.2f}x); floor "
      "{:.1f}: {:.0f} %; error {:.2f}{}  {}\n",
      c.name, us, double{j["predicted_us"]}, double{j["unisono_hot_us"]}, best, theirs, theirs / us, theirs / best,
      floor, 100 * floor / us, double{j["error_over_tolerance"]}, j["repeatable"] ? "" : ", NOT REPEATABLE",
      chosen.first.how);
  return j;
}

void precompile(const bench::Suite& suite, const Options& options) {
  const plan::Device device;
  std::vector<jit::Request> requests{gpu::kernels_request(device), bench::copy_request(device)};
  for (const bench::Case& c : suite.cases) {
    products::FilterGradientProblem problem = problem_of(c.conv);
    const auto ways = gpu::filter_gradient_ways(problem, device);
    fmt::print("{:<24} predicted {:6.1f} us  {}\n", c.name, gpu::clocks_of(ways[0]) / (1000 * device.clock_ghz),
               gpu::FilterGradientKernels(problem, ways[0], device).how());
    // The sweep has the first of each kernel, which are compared with float64 in any case
    for (const gpu::FilterGradientWay& way : to_sweep(ways))
      for (jit::Request& r : gpu::FilterGradientKernels(problem, way, device).requests(device))
        if (std::ranges::none_of(requests, [&](const jit::Request& o) { return o.source == r.source; }))
          requests.push_back(std::move(r));
  }
  for (const jit::Request& r : requests) gpu::compiler().compile(r);
  fmt::print("{} kernels are in the cache{}\n", requests.size(), options.sweep ? "" : ", those of --sweep too");
}

// How much faster than cuDNN in the geometric mean and at least
void summarise(json& all) {
  double logs = 0, least = INFINITY, best = 0;
  int count = 0;
  for (const json& j : all["cases"]) {
    if (!j.contains("peers")) continue;
    const double theirs = j["peers"]["cudnn"], ratio = theirs / double{j["unisono_us"]};
    logs += std::log(ratio), best += std::log(theirs / double{j["best_us"]}), least = std::min(least, ratio), ++count;
  }
  if (count == 0) return;
  all["geomean_over_cudnn"] = std::exp(logs / count), all["least_over_cudnn"] = least;
  fmt::print("{} cases: {:.3f} times cuDNN's speed in the geomean, {:.3f} at least; the best plans {:.3f}\n", count,
             std::exp(logs / count), least, std::exp(best / count));
}

int run(const Options& options) {
  bench::Suite suite = bench::read_suite(options.cases);
  if (!options.only.empty()) bench::keep_only(suite, options.only);
  for (const bench::Case& c : suite.cases)
    if (c.product || c.conv.groups != 1 || c.conv.dtype_x != DType::bf16)
      throw UserError(fmt::format("{}: expected convolutions of bf16 without groups", c.name));
  if (options.precompile) return precompile(suite, options), 0;
  if (!options.probe.empty()) {
    for (const bench::Case& c : suite.cases)
      if (c.name == options.probe) probe_engines(c, options);
    return 0;
  }
  std::unique_ptr<bench::Cudnn> cudnn;
  std::string version;
  try {
    cudnn = std::make_unique<bench::Cudnn>(options.libraries), version = cudnn->version();
  } catch (const UserError& error) {
    version = std::string("absent: ") + error.what();
  }
  bench::Ceilings ceilings{options.matmul_tflops, "", options.copy_tbps, ""};
  if (options.timing) ceilings = bench::measure_ceilings(options.matmul_tflops, options.copy_tbps, options.libraries);
  fmt::print("{}, cuDNN {}, ceilings {:.0f} TFLOP/s, {:.2f} TB/s\n", gpu::device().device.name, version,
             ceilings.matmul_tflops, ceilings.copy_tbps);
  json all{{"suite", "wgrad"},
           {"commit", options.commit},
           {"gpu", gpu::device().device.name},
           {"cudnn", version},
           {"ceilings", {{"matmul_tflops", ceilings.matmul_tflops}, {"copy_tbps", ceilings.copy_tbps}}},
           {"cases", json::array()}};
  bool good = true;
  for (const bench::Case& c : suite.cases) {
    all["cases"].push_back(run_case(c, options, ceilings, cudnn.get()));
    const json& j = all["cases"].back();
    good = good && j["repeatable"] && j["error_over_tolerance"] <= 1.0;
    std::fflush(stdout);
    if (&c == &suite.cases.back()) summarise(all);
    if (!options.out.empty()) std::ofstream(options.out) << all.dump(1) << '\n';
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times filter gradients (wgrad) against cuDNN on a GPU.", "unisono_bench_filter_gradients");
  Options o;
  app.add_option("CASES", o.cases, "A file of cases, such as bench/cases/block.txt; epilogues are left out")
      ->required();
  app.add_option("--json", o.out, "Write the results here");
  app.add_option("--commit", o.commit, "Recorded with the results");
  app.add_option("--only", o.only, "Cases whose name contains this text");
  app.add_flag("--sweep", o.sweep, "Time other plans, too, and print them");
  app.add_flag("!--no-timing", o.timing, "Compare with float64 alone");
  app.add_flag("--precompile", o.precompile, "Compile the kernels into the cache, and end; needs no GPU");
  app.add_option("--libraries", o.libraries,
                 "The folder of libcudnn and libcublas, if they are not found by themselves");
  app.add_option("--matmul-tflops", o.matmul_tflops, "The GPU's peak TFLOP/s, instead of measuring it");
  app.add_option("--copy-tbps", o.copy_tbps, "The GPU's peak TB/s, instead of measuring it");
  app.add_option("--probe", o.probe, "Run cuDNN's engines for the case of this name alone, and say which run");
  app.add_option("--from", o.from, "The first of the engines that --probe runs");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unisono_bench_filter_gradients: %s\n", error.what());
    return 1;
  }
}
