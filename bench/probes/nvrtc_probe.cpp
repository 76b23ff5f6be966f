// Compiles one generated-looking kernel with NVRTC against the device headers and reports the time and the log.
//   nvrtc_probe HEADER_FOLDER
#include <nvrtc.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

static const char* const kSource = R"(
#include <unisono/sm90/conv_fprop.cuh>
#include <unisono/epilogue/math.cuh>
using namespace unisono;
struct Shape {
    using Element = Bf16;
    static constexpr int kTileM = 128, kTileN = 128, kTileK = 64, kStages = 6, kStagesA = 3, kHaloH = 2, kHaloW = 2, kStoreBuffers = 2;
    static constexpr int kTileWarpgroups = 1, kConsumerGroups = 2, kWarpgroupRows = 128, kClusterM = 1, kClusterN = 1, kUnit = 4;
    static constexpr bool kTwoDimensional = true, kSplit = false, kSwap = false, kStationary = false, kWide = false, kMeets = false;
    static constexpr int kGroup = 0, kMoments = 0, kFetch = 0;
    static constexpr Stores kStores = Stores::kTma;
    using Operands = Images;
    using Resample = AsItIs;
    using Head = NoHead;
    static constexpr Norm kNorm = Norm::NORM;
};
struct Visitor {
    using Output = Bf16;
    using Side = Bf16;
    static constexpr SideStore kSide = SideStore::kNone;
    struct Params { const float *bias, *gamma, *beta; };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) { return {}; }
    static constexpr int kColumnsBefore = Shape::kNorm == Norm::kNone ? 0 : 1, kColumnsAfter = 1 - kColumnsBefore, kTensorsBefore = 0, kTensors = 0;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform&, int, int channel, float* column) { column[0] = __ldg(p.bias + channel); }
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform&, int, int channel, float* column) { column[0] = __ldg(p.bias + channel); }
    static UNISONO_DEVICE float before(float x, const float* column, const float*, const Uniform&) { return x + column[0]; }
    static UNISONO_DEVICE float after(float x, float, const float*, const float*, const Uniform&) { return math::silu(x); }
    static constexpr bool kRaw = false, kStatistics = false;
    struct Late { float scale, shift; };
    static UNISONO_DEVICE Late late(const Params& p, const Uniform&, int, int channel) { return {__ldg(p.gamma + channel), __ldg(p.beta + channel)}; }
    static UNISONO_DEVICE float2 affine(const Late& late, const Uniform&, float, float variance) { return {late.scale * rsqrtf(variance + 1e-5f), late.shift}; }
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
