// Written by `unisono emit`. conv2d 1x16x16x64 -> 64, 3x3, pad 1, groups 64, bf16: sm90_depthwise, depthwise 64x64 in strips of 4x2 pixels by 4 channels of 3x3 taps
// Compile with nvcc of CUDA 12.3 or later; nothing else is needed, and only the CUDA runtime is linked:
//   nvcc -std=c++17 -O2 --expt-relaxed-constexpr -arch=sm_80 (or later) -c FILE
// With -DUNISONO_SELF_CHECK in place of -c it is a program that runs the kernel and checks every element.
#include "depthwise.h"

#ifdef __CUDACC__
#pragma nv_diagnostic push
#pragma nv_diag_suppress 177, 549  // never referenced; used before it is set: members that nothing reads
#define UNISONO_DEDUCED __host__ __device__
#else
#define UNISONO_DEDUCED
#endif
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

// A convolution and its epilogue in one kernel:
//   y = relu(acc + bias[n])
//   store y : bf16
#include "unisono/sm90/depthwise.cuh"
#include "unisono/epilogue/math.cuh"
#include "unisono/epilogue/operands.cuh"

namespace unisono_depthwise {

struct Config {
    using Element = Bf16;
    static constexpr int kWide = 2, kVector = 4, kTileN = 64, kThreads = 128, kBlocks = 4;
    static constexpr int kTapsH = 3, kTapsW = 3, kStrideH = 1, kStrideW = 1, kMultiplier = 1;
    static constexpr bool kGeneral = false;
};

struct Visitor {
    using Output = Bf16;
    using Side = Bf16;
    static constexpr SideStore kSide = SideStore::kNone;
    struct Params {
        const void* bias;  // f32 [n]
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 0, kColumnsAfter = 1;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform& u, int image, int channel, float* column) {}
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float bias = load<float>(p.bias, channel);
        column[0] = as_column(bias);
    }

    static constexpr int kTensorsBefore = 0, kTensors = 0;
    static UNISONO_DEVICE float before(float acc, const float*, const float*, const Uniform&) {
        return acc;
    }
    static UNISONO_DEVICE float after(float acc, float, const float* column, const float* tensor, const Uniform& u) {
        const float bias = column[0];
        const float v2 = acc + bias;
        const float v3 = math::relu(v2);
        return v3;
    }
    static UNISONO_DEVICE float side(float, const float*, const float*, const Uniform&) {
        return 0.f;
    }

    static constexpr bool kRaw = false;
    struct Late {};
    static UNISONO_DEVICE Late late(const Params&, const Uniform&, int, int) {
        return {};
    }
    static UNISONO_DEVICE float2 affine(const Late&, const Uniform&, float, float) {
        return {1.f, 0.f};
    }
    static constexpr bool kStatistics = false;
    static UNISONO_DEVICE void statistics(const Params& p, const Uniform& u, int image, int group, float mean, float variance) {}
};

using Conv = Depthwise<Config, Visitor>;

}  // namespace unisono_depthwise

extern "C" __global__ void __launch_bounds__(unisono_depthwise::Conv::kThreads, unisono_depthwise::Conv::kBlocks)
depthwise_kernel(const __grid_constant__ unisono_depthwise::Conv::Params params) {
    unisono_depthwise::Conv::run(params);
}
#include "unisono/emitted/launch.hpp"

// ---- The host function

namespace unisono_depthwise::emitted {
namespace {

// What every launch has in its parameter, then what arguments give
constexpr Word words_elements[] = {
    {8, 0x4000},
    {16, 0x400},
    {24, 0x40},
    {32, 0x1000000010},
    {40, 0x100000001},
    {48, 0x2000000004},
    {56, 0x2000000020},
    {64, 0x8000000000000004},
    {72, 0x800000000000001f},
    {80, 0x8000000000000024},
    {88, 0x8000000000000024},
    {96, 0x21},
    {200, 0x40},
    {264, 0x10000000001},
    {272, 0x400000040},
    {280, 0x400000001},
    {288, 0x1000000010},
    {296, 0x300000000},
    {304, 0x3},
    {312, 0x100000001},
    {320, 0x100000001},
    {328, 0x100000001},
    {336, 0x8000000000000001},
    {344, 0x800000000000001f},
    {352, 0x8000000000000021},
    {360, 0x8000000000000021},
    {368, 0x800000000000001f},
    {376, 0x800000000000001f},
    {384, 0x800000000000001f},
    {392, 0x8000000000000023},
    {400, 0x8000000000000027},
    {408, 0x100000001f},
    {432, 0x2380000000}};
constexpr List<Word> words{words_elements, 33};
constexpr Place addresses_elements[] = {
    {0, 0, 0},
    {1, 128, 0},
    {2, 192, 0},
    {3, 448, 0}};
constexpr List<Place> addresses{addresses_elements, 4};
constexpr List<Map> maps{nullptr, 0};
constexpr Argument pointers_elements[] = {
    {16, false},
    {16, false},
    {16, false},
    {4, false}};
constexpr List<Argument> pointers{pointers_elements, 4};
// CTAs, threads, CTAs of a cluster, bytes of shared memory, whether CTAs wait for one another; the GPU
constexpr Shape shape{4, 128, 1, 2448, false, 8, 0, false};
constexpr const char* texts[][3] = {
    {"image: null; expected bf16 (1,16,16,64) in GPU memory",
     "image: its address is not a multiple of 16 bytes",
     "image: the driver takes no tensor map of it"},
    {"filter: null; expected bf16 (64,3,3,1) in GPU memory",
     "filter: its address is not a multiple of 16 bytes",
     "filter: the driver takes no tensor map of it"},
    {"y: null; expected bf16 (1,16,16,64) in GPU memory",
     "y: its address is not a multiple of 16 bytes",
     "y: the driver takes no tensor map of it"},
    {"bias: null; expected f32 (64) in GPU memory",
     "bias: its address is not a multiple of 4 bytes",
     "bias: the driver takes no tensor map of it"}};

}  // namespace
}  // namespace unisono_depthwise::emitted

int depthwise_run(const struct depthwise_arguments* a, void* stream) {
  using namespace unisono_depthwise::emitted;
  static_assert(sizeof(unisono_depthwise::Conv::Params) == 512, "the parameter that is filled here");
  int major = 0;
  if (a == nullptr) return kNoArguments;
  if (const int fault = checked(shape, major)) return fault;
  const void* const given[] = {a->image, a->filter, a->y, a->bias};
  if (const int fault = checked(pointers, given)) return fault;
  alignas(128) unsigned char parameter[512] = {};
  fill(words, addresses, given, parameter);
  if (const int fault = encode(maps, given, parameter)) return fault;
  return enqueue(shape, reinterpret_cast<const void*>(&depthwise_kernel), major, parameter, static_cast<cudaStream_t>(stream));
}

const char* depthwise_text(int status) {
  using namespace unisono_depthwise::emitted;
  constexpr int count = int(sizeof texts / sizeof texts[0]);
  for (const int kind : {kNull, kMisaligned, kMap})
    if (status <= kind && status > kind - count) return texts[kind - status][kind / kNull - 1];
  switch (status) {
    case 0: return "the kernel was enqueued";
    case kNoArguments: return "no arguments were given";
    case kOtherDevice: return "the current device is not of compute capability 8.0 or later, which the kernel is for";
    case kNoMaps: return "the driver has no tensor maps: it is older than CUDA 12.0";
    case kSmallWorkspace: return "workspace: fewer than 0 bytes";
    default: return status > 0 ? cudaGetErrorString(static_cast<cudaError_t>(status)) : "unknown";
  }
}

size_t depthwise_workspace_bytes(void) { return 0; }

#ifdef UNISONO_SELF_CHECK
#include "unisono/emitted/contraction.hpp"
#include "unisono/emitted/functions.hpp"

int main() {
  using namespace unisono_depthwise::emitted;
  constexpr Space space{1, 16, 16, 64};
  constexpr Contraction contraction{{1, 16, 16}, 64, 64, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, false, false, false, false, false, 7.152557373046875e-07, false};
  const Tensor t0 = random_tensor(Type::bf16, 16384, space.columns);  // the image
  const Tensor t1 = random_tensor(Type::bf16, 576, space.columns);  // the filter
  Tensor t2 = output_tensor(Type::bf16, 16384);  // output y[m,n]
  const Tensor t3 = random_tensor(Type::f32, 64, space.columns);  // operand bias[n]
  depthwise_arguments a{};
  a.image = t0.data();
  a.filter = t1.data();
  a.y = t2.data();
  a.bias = t3.data();
  a.workspace_bytes = depthwise_workspace_bytes();
  if (a.workspace_bytes > 0) {
    succeed(cudaMalloc(&a.workspace, a.workspace_bytes), "cudaMalloc");
    succeed(cudaMemset(a.workspace, 0, a.workspace_bytes), "cudaMemset");
  }
  std::vector<std::vector<unsigned char>> found[2];
  for (auto& of_launch : found) {
    t2.poison();
    if (const int status = depthwise_run(&a, nullptr)) {
      fprintf(stderr, "depthwise_run: %s\n", depthwise_text(status));
      return 2;
    }
    succeed(cudaDeviceSynchronize(), "the kernel");
    of_launch = {t2.all()};
  }
  bool ok = found[0] == found[1];
  if (!ok) printf("two launches have different bits\n");
  Values v0 = multiplied(space, contraction, t0.values, t1.values);
  Values v1 = operand(space, t3, Lie::rows, 1, space.columns);
  Values v2 = each(space, space.rows(), space.columns, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v0, &v1}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return x + y; });
  v0 = Values();
  v1 = Values();
  Values v3 = each(space, space.rows(), space.columns, Bound{0.0, 0.0, 0.0, 0}, {&v2}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return larger(x, V{}); });
  v2 = Values();
  ok &= agrees(space, t2, t2.all(), Lie::rows, v3, "y");
  printf("%s\n", ok ? "ok" : "WRONG");
  return ok ? 0 : 1;
}
#endif

#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#ifdef __CUDACC__
#pragma nv_diagnostic pop
#endif
