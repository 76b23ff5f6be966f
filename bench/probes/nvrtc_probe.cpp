// Compiles one generated-looking kernel with NVRTC against the device headers and reports the time and the log.
//   nvrtc_probe HEADER_FOLDER
#include <nvrtc.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

static const char* const kSource = R"(
#include <coda/conv_fprop.cuh>
#include <coda/math.cuh>
using namespace coda;
struct Shape {
    using Element = Bf16;
    static constexpr int kTileM = 128, kTileN = 128, kTileK = 64, kStages = 6, kStagesA = 3, kHalo = 2, kStoreBuffers = 2;
    static constexpr int kTileWarpgroups = 1, kTurns = 2, kWarpgroupRows = 128, kClusterM = 1, kClusterN = 1, kUnit = 4;
    static constexpr bool kPatch = true, kSplit = false;
    static constexpr Norm kNorm = Norm::NORM;
};
struct Visitor {
    struct Params { const float *bias, *gamma, *beta; };
    static constexpr int kColumns = 1, kTensors = 0;
    static constexpr bool kTensorsBefore = false;
    template <int> static CODA_DEVICE float column(const Params& p, int, int channel) { return __ldg(p.bias + channel); }
    template <int> static CODA_DEVICE const void* tensor(const Params&) { return nullptr; }
    static CODA_DEVICE float before(float x, const float* c, const float*, const Params&) { return x + c[0]; }
    static CODA_DEVICE float after(float x, const float*, const float*, const Params&) { return math::silu(x); }
    static CODA_DEVICE float scale(const Params& p, int, int channel) { return __ldg(p.gamma + channel); }
    static CODA_DEVICE float shift(const Params& p, int, int channel) { return __ldg(p.beta + channel); }
};
using Conv = ConvFprop<Shape, Visitor>;
extern "C" __global__ void __launch_bounds__(Conv::kThreads, 1) conv(const __grid_constant__ Conv::Params params) { Conv::run(params); }
)";

int main(int argc, char** argv) {
  if (argc != 2) return std::printf("usage: nvrtc_probe HEADER_FOLDER\n"), 1;
  const std::string include = std::string("-I") + argv[1];
  int failures = 0;
  for (const char* norm : {"kNone", "kResident", "kResident"}) {  // the first pays for loading the compiler
    const std::string define = std::string("-DNORM=") + norm;
    const char* options[] = {"--gpu-architecture=sm_90a", "--std=c++17", "-default-device", include.c_str(),
                             define.c_str()};
    const auto start = std::chrono::steady_clock::now();
    nvrtcProgram program;
    nvrtcCreateProgram(&program, kSource, "conv.cu", 0, nullptr, nullptr);
    const nvrtcResult result = nvrtcCompileProgram(program, 5, options);
    size_t size = 0, cubin = 0;
    nvrtcGetProgramLogSize(program, &size);
    std::vector<char> log(size + 1);
    nvrtcGetProgramLog(program, log.data());
    if (result == NVRTC_SUCCESS) nvrtcGetCUBINSize(program, &cubin);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::printf("%-10s %s, %.0f ms, cubin %zu bytes%s%s\n", norm, nvrtcGetErrorString(result), ms, cubin,
                size > 1 ? "\n" : "", log.data());
    failures += result != NVRTC_SUCCESS;
    nvrtcDestroyProgram(&program);
  }
  return failures;
}
