// unisono_bench_launch: what a launch costs the host. Launch::enqueue beside a plain cuLaunchKernelEx of an empty
// kernel with as many parameters, threads, blocks and the same attributes. Prints JSON.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/kernels.hpp"
#include "runtime/cuda/gpu.hpp"
#include "unisono/unisono.hpp"

namespace {

using namespace unisono;
using cuda::check;
using cuda::driver;

constexpr int batch = 400, batches = 41;  // well below the launches that a stream holds before it makes the host wait

// Microseconds of the host for one call, by batch, in order
std::vector<double> times(CUstream stream, const std::function<void()>& enqueue) {
  std::vector<double> us;
  for (int b = 0; b <= batches; ++b) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i) enqueue();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    gpu::wait(stream, "launches");
    if (b > 0) us.push_back(time.count() / batch);  // the first batch warms up
  }
  std::sort(us.begin(), us.end());
  return us;
}

struct Empty {
  CUfunction function = nullptr;
  std::array<std::byte, 1024> parameters{};
  Empty() {
    static const char* const source =
        "struct alignas(64) P { char bytes[1024]; };\n"
        "extern \"C\" __global__ void __launch_bounds__(384, 1) empty(const __grid_constant__ P p) {}\n";
    const jit::Binary binary = gpu::compiler().compile({.source = source,
                                                        .headers = {},
                                                        .entry = "empty",
                                                        .title = "an empty kernel",
                                                        .arch = gpu::device().device.arch()});
    CUmodule module = nullptr;
    check(driver().cuModuleLoadData(&module, binary.cubin.data()), "loading the empty kernel");
    check(driver().cuModuleGetFunction(&function, module, "empty"), "finding the empty kernel");
  }
  void enqueue(CUstream stream) {
    CUlaunchAttribute cooperative{};
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperative.value.cooperative = 1;
    CUlaunchConfig config{};
    config.gridDimX = 132, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 384, config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream, config.attrs = &cooperative, config.numAttrs = 1;
    void* list[] = {parameters.data()};
    check(driver().cuLaunchKernelEx(&config, function, list, nullptr), "launching the empty kernel");
  }
};

std::string now() {
  const std::time_t time = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&time));
  return text;
}

double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }
double rounded(double us) { return std::round(us * 1e3) / 1e3; }

// By each way to launch, in order of size
struct Times {
  std::vector<double> plain, bound, checked;
};

// A convolution whose CTAs exchange statistics
Times measure() {
  const Conv2d conv{.n = 8,
                    .h = 32,
                    .w = 32,
                    .c = 64,
                    .k = 64,
                    .r = 3,
                    .s = 3,
                    .pad = {1, 1, 1, 1},
                    .dtype_x = DType::bf16,
                    .dtype_w = DType::bf16};
  const Graph graph =
      parse("store silu(group_norm(acc + bias[n], groups=32, scale=gamma[n], shift=beta[n])) as y : bf16");
  CompileOptions options;
  options.device = Device::cuda;
  const Executable executable = compile(conv, graph, options);
  gpu::Buffer x(8 * 32 * 32 * 64 * 2), w(64 * 9 * 64 * 2), y(8 * 32 * 32 * 64 * 2), bias(256), gamma(256), beta(256);
  Arguments a;
  a.image = {x.data(), DType::bf16, shape_a(conv)};
  a.filter = {w.data(), DType::bf16, shape_b(conv)};
  a.operands = {{"bias", {bias.data(), DType::f32, {64}}},
                {"gamma", {gamma.data(), DType::f32, {64}}},
                {"beta", {beta.data(), DType::f32, {64}}}};
  a.outputs = {{"y", {y.data(), DType::bf16, shape_mn(conv)}}};
  const gpu::TestStream stream;
  const Launch launch = executable.bind(a);
  Empty empty;
  return {.plain = times(stream.get(), [&] { empty.enqueue(stream.get()); }),
          .bound = times(stream.get(), [&] { launch.enqueue(stream); }),
          .checked = times(stream.get(), [&] { executable.enqueue(a, stream); })};
}

int run(const std::string& commit) {
  const cuda::Current current(gpu::device());
  const Times t = measure();
  const nlohmann::ordered_json result{
      {"suite", "launch"},
      {"gpu", gpu::device().device.name},
      {"driver", gpu::device().device.driver},
      {"commit", commit},
      {"date", now()},
      {"what", fmt::format("host time of one launch, us, medians of {} batches of {}", batches, batch)},
      {"cuLaunchKernelEx_us", rounded(median(t.plain))},
      {"Launch_enqueue_us", rounded(median(t.bound))},
      {"over_us", rounded(median(t.bound) - median(t.plain))},
      {"Executable_enqueue_us", rounded(median(t.checked))}};
  std::printf("%s\n", result.dump(1).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures what a launch costs the host. Prints JSON.", "unisono_bench_launch");
  std::string commit;
  app.add_option("--commit", commit, "Recorded with the results");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(commit);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unisono_bench_launch: %s\n", error.what());
    return 1;
  }
}
