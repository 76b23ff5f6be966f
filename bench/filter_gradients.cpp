// unisono_bench_filter_gradients: times filter gradients (wgrad) against cuDNN for the shapes in files of bench/cases.
// Compares 48 elements of each with float64. Prints a table and writes JSON.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/cases.hpp"
#include "bench/ceilings.hpp"
#include "bench/cudnn.hpp"
#include "bench/data.hpp"
#include "bench/replays.hpp"
#include "gpu/device.hpp"
#include "gpu/kernels.hpp"
#include "lower/request.hpp"
#include "products/filter_gradient.hpp"
#include "runtime/cuda/plain.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace {

using namespace unisono;
using nlohmann::json;

struct Options {
  std::string cases, out, only;
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

jit::Request request_of(const products::Kernel& kernel, const plan::Device& device) {
  return {.source = kernel.source,
          .headers = lower::device_headers(),
          .entry = kernel.entry,
          .title = kernel.how,
          .arch = device.arch()};
}

// One plan of a case, bound to every set of operands
struct Ours {
  products::FilterGradientPlan plan;
  std::string how;
  int launches = 1;
  std::unique_ptr<gpu::Buffer> partials;  // for all executions, which follow one another
  std::vector<bench::Enqueue> sets;
};

std::shared_ptr<const cuda::PlainKernel> loaded(const products::Kernel& kernel) {
  const jit::Binary binary = gpu::compiler().compile(request_of(kernel, gpu::device().device));
  return cuda::load_plain(gpu::device().index, binary, kernel.entry, sizeof(FilterGradientParams));
}

Ours ours_of(const Conv2d& conv, const products::FilterGradientPlan& plan,
             const std::vector<std::unique_ptr<bench::Data>>& sets) {
  products::FilterGradientProblem problem = problem_of(conv);
  products::filter_gradient_plans(problem, gpu::device().device);  // completes its columns
  const auto kernels = products::filter_gradient(problem, plan, gpu::device().device);
  Ours ours{plan, kernels.sums.how, kernels.addition ? 2 : 1, nullptr, {}};
  if (kernels.addition) ours.partials = std::make_unique<gpu::Buffer>(static_cast<std::size_t>(kernels.partial_bytes));
  std::vector<std::pair<products::Kernel, std::shared_ptr<const cuda::PlainKernel>>> steps;
  steps.emplace_back(kernels.sums, loaded(kernels.sums));
  if (kernels.addition) steps.emplace_back(*kernels.addition, loaded(*kernels.addition));
  for (const auto& data : sets) {
    FilterGradientParams p = problem.extents;
    p.g = data->buffer("a").data(), p.x = data->buffer("b").data();
    p.result = data->arguments().outputs.begin()->second.data;
    p.partials = ours.partials ? ours.partials->data() : nullptr;
    std::vector<Launch> launches;
    for (const auto& [kernel, loaded] : steps)
      launches.push_back(cuda::bind_plain(loaded, {kernel.ctas, kernel.threads, kernel.shared_bytes},
                                          std::as_bytes(std::span(&p, 1)), kernel.how));
    ours.sets.emplace_back([launches](CUstream stream) {
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

struct Chosen {
  Ours first, best;
  double first_us = 0, best_us = 0;  // glances
};

// The best-predicted plan, and with `sweep` the fastest of many
Chosen choose(const Conv2d& conv, const std::vector<std::unique_ptr<bench::Data>>& sets, const Options& options) {
  products::FilterGradientProblem problem = problem_of(conv);
  const auto plans = products::filter_gradient_plans(problem, gpu::device().device);
  Chosen chosen{ours_of(conv, plans[0], sets), ours_of(conv, plans[0], sets)};
  if (!options.timing) return chosen;
  chosen.first_us = chosen.best_us = bench::glance(*bench::replays_of(chosen.first.sets, "the first plan"));
  if (!options.sweep) return chosen;
  for (const products::FilterGradientPlan& plan : plans) {
    if (plan.clocks > 1.6 * plans[0].clocks) break;
    const bool counts = plan.parts <= 8 || plan.parts % 4 == 0;
    if (!counts) continue;
    Ours ours = ours_of(conv, plan, sets);
    const double us = bench::glance(*bench::replays_of(ours.sets, ours.how));
    fmt::print("    {:>3}x{:<3} {:>3} parts: predicted {:7.1f}, measured {:7.1f} us\n", plan.rows, plan.columns,
               plan.parts, plan.clocks / (1000 * gpu::device().device.clock_ghz), us);
    if (us < chosen.best_us) chosen.best_us = us, chosen.best = std::move(ours);
  }
  return chosen;
}

// The fastest of cuDNN's engines, or nullptr if none runs
std::unique_ptr<bench::Replays> cudnn_of(bench::Cudnn& cudnn, const Conv2d& conv,
                                         const std::vector<std::unique_ptr<bench::Data>>& sets, std::string& error) {
  std::unique_ptr<bench::Replays> best;
  double best_us = 0;
  try {
    for (const bench::Engine& engine : cudnn.engines(conv, bench::Direction::wgrad, sets)) {
      try {
        auto replays = bench::replays_of(engine.sets, "cuDNN's " + engine.name);
        const double us = bench::glance(*replays);
        if (!best || us < best_us) best = std::move(replays), best_us = us;
      } catch (const UserError& refused) {
        error = refused.what();
      }
    }
  } catch (const UserError& refused) {
    error = refused.what();
  }
  return best;
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
  const std::string output = sets[0]->arguments().outputs.begin()->first;
  const auto computed = [&](const bench::Enqueue& enqueue) {
    sets[0]->poison();
    gpu::wait(nullptr, "poisoning");
    enqueue(nullptr);
    gpu::wait(nullptr, "a filter's gradient");
    return sets[0]->output(output);
  };
  json j{
      {"name", c.name}, {"dtype", to_string(c.conv.dtype_x)}, {"flop", flop(Contraction(gradient))}, {"bytes", bytes}};
  const auto result = computed(chosen.first.sets[0]);
  j["error_over_tolerance"] = error_of(c.conv, *sets[0], result);
  j["repeatable"] = computed(chosen.first.sets[0]) == result;
  j["plan"] = chosen.first.how, j["launches"] = chosen.first.launches;
  j["best_plan"] = chosen.best.how, j["first_glance_us"] = chosen.first_us, j["best_glance_us"] = chosen.best_us;
  if (!options.timing) {
    fmt::print("{:<24} error {:.2f}{}  {}\n", c.name, double{j["error_over_tolerance"]},
               j["repeatable"] ? "" : ", NOT REPEATABLE", chosen.first.how);
    return j;
  }
  std::vector<std::unique_ptr<bench::Replays>> owned;
  owned.push_back(bench::replays_of(chosen.first.sets, "a filter's gradient"));
  owned.push_back(bench::replays_of(chosen.best.sets, "a filter's gradient"));
  std::string error = cudnn ? "" : "there is no cuDNN";
  if (cudnn)
    if (auto theirs = cudnn_of(*cudnn, c.conv, sets, error)) owned.push_back(std::move(theirs));
  std::vector<bench::Contender*> contenders;
  for (const auto& o : owned) contenders.push_back(o.get());
  const auto times = bench::measure(contenders, {});
  j["unisono_us"] = times[0].us, j["unisono_hot_us"] = times[0].hot, j["spread"] = times[0].spread;
  j["best_us"] = times[1].us, j["best_hot_us"] = times[1].hot;
  if (times.size() > 2)
    j["peers"] = {{"cudnn", times[2].us}}, j["peers_hot"] = {{"cudnn", times[2].hot}};
  else
    j["peer_errors"] = {{"cudnn", error}};
  j["floor_us"] = ceilings.floor_us(flop(Contraction(gradient)), bytes);
  const double us = times[0].us, floor = j["floor_us"];
  const double theirs = times.size() > 2 ? times[2].us : std::nan("");
  fmt::print(
      "{:<24} {:8.1f} us (hot {:.1f}; best plan {:.1f}), cuDNN {:.1f}: {:.2f}x; floor {:.1f}: {:.0f} %; error {:.2f}{} "
      " {}\n",
      c.name, us, times[0].hot, times[1].us, theirs, theirs / us, floor, 100 * floor / us,
      double{j["error_over_tolerance"]}, j["repeatable"] ? "" : ", NOT REPEATABLE", chosen.first.how);
  return j;
}

void precompile(const bench::Suite& suite, const Options& options) {
  const plan::Device device;
  std::vector<jit::Request> requests{gpu::kernels_request(device), bench::copy_request(device)};
  for (const bench::Case& c : suite.cases) {
    products::FilterGradientProblem problem = problem_of(c.conv);
    for (const auto& plan : products::filter_gradient_plans(problem, device)) {
      const auto kernels = products::filter_gradient(problem, plan, device);
      for (const products::Kernel* k : {&kernels.sums, kernels.addition ? &*kernels.addition : &kernels.sums}) {
        jit::Request r = request_of(*k, device);
        if (std::ranges::none_of(requests, [&](const jit::Request& o) { return o.source == r.source; }))
          requests.push_back(std::move(r));
      }
      if (!options.sweep) break;
    }
  }
  for (const jit::Request& r : requests) gpu::compiler().compile(r);
  fmt::print("{} kernels are in the cache\n", requests.size());
}

int run(const Options& options) {
  bench::Suite suite = bench::read_suite(options.cases);
  if (!options.only.empty()) bench::keep_only(suite, options.only);
  for (const bench::Case& c : suite.cases)
    if (c.product || c.conv.groups != 1 || c.conv.dtype_x != DType::bf16)
      throw UserError(fmt::format("{}: expected convolutions of bf16 without groups", c.name));
  if (options.precompile) return precompile(suite, options), 0;
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
  app.add_option("--only", o.only, "Cases whose name contains this text");
  app.add_flag("--sweep", o.sweep, "Time other plans, too, and print them");
  app.add_flag("!--no-timing", o.timing, "Compare with float64 alone");
  app.add_flag("--precompile", o.precompile, "Compile the kernels into the cache, and end; needs no GPU");
  app.add_option("--libraries", o.libraries,
                 "The folder of libcudnn and libcublas, if they are not found by themselves");
  app.add_option("--matmul-tflops", o.matmul_tflops, "The GPU's peak TFLOP/s, instead of measuring it");
  app.add_option("--copy-tbps", o.copy_tbps, "The GPU's peak TB/s, instead of measuring it");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unisono_bench_filter_gradients: %s\n", error.what());
    return 1;
  }
}
