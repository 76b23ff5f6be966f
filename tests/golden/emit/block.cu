// Written by `unisono emit`. conv2d 2x16x16x64 -> 64, 3x3, pad 1, bf16: sm90_conv, 64x16/12+3 pingpong resident
// Compile with nvcc of CUDA 12.3 or later; nothing else is needed, and only the CUDA runtime is linked:
//   nvcc -std=c++17 -O2 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -c FILE
// With -DUNISONO_SELF_CHECK in place of -c it is a program that runs the kernel and checks every element.
#include "block.h"

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
//   t0 = acc + bias[n]
//   t1 = fma(t0 - mean(t0, over=(m,n), per=b, groups=8), rsqrt(variance(t0, over=(m,n), per=b, groups=8) + 1e-5) * gamma[n], beta[n])
//   y = silu(t1)
//   store y : bf16
#include "unisono/sm90/conv_fprop.cuh"
#include "unisono/epilogue/math.cuh"
#include "unisono/epilogue/operands.cuh"

namespace unisono_block {

struct Config {
    using Element = Bf16;
    static constexpr int kTileM = 64, kTileN = 16, kTileK = 64;
    static constexpr int kTileWarpgroups = 1, kConsumerGroups = 2, kWarpgroupRows = 64;
    static constexpr int kStages = 12, kStagesA = 3, kHaloH = 2, kHaloW = 2, kStoreBuffers = 1;
    static constexpr int kClusterM = 1, kClusterN = 1, kGroup = 0;
    static constexpr bool kTwoDimensional = true, kSplit = false, kSwap = false, kStationary = false;
    static constexpr Norm kNorm = Norm::kResident;
    static constexpr int kUnit = 8, kMoments = 0, kFetch = 0;
    static constexpr bool kWide = false, kMeets = false;
    static constexpr Stores kStores = Stores::kTma;
    using Operands = Images;
    using Resample = AsItIs;
};

struct Visitor {
    using Output = Bf16;
    using Side = Bf16;
    static constexpr SideStore kSide = SideStore::kNone;
    struct Params {
        const void* bias;  // f32 [n]
        const void* gamma;  // f32 [n]
        const void* beta;  // f32 [n]
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 1, kColumnsAfter = 0;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float bias = load<float>(p.bias, channel);
        column[0] = as_column(bias);
    }
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {}

    static constexpr int kTensorsBefore = 0, kTensors = 0;
    static UNISONO_DEVICE float before(float acc, const float* column, const float* tensor, const Uniform& u) {
        const float bias = column[0];
        const float v2 = acc + bias;
        return v2;
    }
    static UNISONO_DEVICE float after(float norm, float raw, const float* column, const float* tensor, const Uniform& u) {
        const float y = math::silu_of_half(norm);
        return y;
    }
    static UNISONO_DEVICE float side(float, const float*, const float*, const Uniform&) {
        return 0.f;
    }

    static constexpr bool kRaw = false;
    struct Late {
        float gamma;
        float beta;
    };
    static UNISONO_DEVICE Late late(const Params& p, const Uniform& u, int image, int channel) {
        const float gamma = load<float>(p.gamma, channel);
        const float beta = load<float>(p.beta, channel);
        return {gamma, beta};
    }
    static UNISONO_DEVICE float2 affine(const Late& late, const Uniform& u, float mean, float variance) {
        const float v7 = variance + 1e-05f;
        const float v8 = math::accurate::rsqrt(v7);
        const float v10 = v8 * late.gamma;
        return {0.5f * v10, 0.5f * late.beta};  // of y/2
    }
    static constexpr bool kStatistics = false;
    static UNISONO_DEVICE void statistics(const Params& p, const Uniform& u, int image, int group, float mean, float variance) {}
};

using Conv = ConvFprop<Config, Visitor>;

}  // namespace unisono_block

extern "C" __global__ void __launch_bounds__(unisono_block::Conv::kThreads, 1)
block_kernel(const __grid_constant__ unisono_block::Conv::Params params) {
    unisono_block::Conv::run(params);
}
#include "unisono/emitted/launch.hpp"

// ---- The host function

namespace unisono_block::emitted {
namespace {

// What every launch has in its parameter, then what arguments give
constexpr Word words_elements[] = {
    {512, 0x10000000002},
    {520, 0x400000040},
    {528, 0x2000000004},
    {536, 0x1000000010},
    {544, 0x300000002},
    {552, 0x100000003},
    {560, 0x100000001},
    {568, 0x100000001},
    {576, 0x100000001},
    {584, 0x8000000000000001},
    {592, 0x8000000000000021},
    {600, 0x8000000000000021},
    {608, 0x8000000000000023},
    {616, 0x8000000000000021},
    {624, 0x800000000000001f},
    {632, 0x8000000000000020},
    {640, 0x8000000000000023},
    {648, 0x8000000000000027},
    {656, 0x100000001f},
    {680, 0x2380000000},
    {704, 0x100000004},
    {712, 0x800000004},
    {720, 0x2280000000},
    {728, 0x2380000000},
    {760, 0x80000000000fffff},
    {768, 0x24}};
constexpr List<Word> words{words_elements, 26};
constexpr Place addresses_elements[] = {
    {3, 832, 0},
    {4, 840, 0},
    {5, 848, 0},
    {6, 688, 256},
    {6, 696, 256},
    {6, 752, 0}};
constexpr List<Place> addresses{addresses_elements, 6};
constexpr Map maps_elements[] = {
    {0, 0, 0, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, {64, 16, 16, 2, 0}, {128, 2048, 32768, 0}, {64, 10, 10, 1, 0}, {1, 1, 1, 1, 1}, false, {0, 0, 0}, {0, 0, 0}, 0, 0, CU_TENSOR_MAP_SWIZZLE_128B},
    {1, 128, 0, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, {64, 9, 64, 1, 0}, {128, 1152, 0, 0}, {64, 1, 16, 1, 0}, {1, 1, 1, 1, 1}, false, {0, 0, 0}, {0, 0, 0}, 0, 0, CU_TENSOR_MAP_SWIZZLE_128B},
    {2, 256, 0, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, {64, 16, 16, 2, 0}, {128, 2048, 32768, 0}, {16, 8, 2, 1, 0}, {1, 1, 1, 1, 1}, false, {0, 0, 0}, {0, 0, 0}, 0, 0, CU_TENSOR_MAP_SWIZZLE_32B}};
constexpr List<Map> maps{maps_elements, 3};
constexpr Argument pointers_elements[] = {
    {16, false},
    {16, false},
    {16, false},
    {4, false},
    {4, false},
    {4, false},
    {256, false}};
constexpr List<Argument> pointers{pointers_elements, 7};
// CTAs, threads, CTAs of a cluster, bytes of shared memory, whether CTAs wait for one another; the GPU
constexpr Shape shape{32, 384, 1, 76032, true, 9, 0, true};
constexpr const char* texts[][3] = {
    {"image: null; expected bf16 (2,16,16,64) in GPU memory",
     "image: its address is not a multiple of 16 bytes",
     "image: the driver takes no tensor map of it"},
    {"filter: null; expected bf16 (64,3,3,64) in GPU memory",
     "filter: its address is not a multiple of 16 bytes",
     "filter: the driver takes no tensor map of it"},
    {"y: null; expected bf16 (2,16,16,64) in GPU memory",
     "y: its address is not a multiple of 16 bytes",
     "y: the driver takes no tensor map of it"},
    {"bias: null; expected f32 (64) in GPU memory",
     "bias: its address is not a multiple of 4 bytes",
     "bias: the driver takes no tensor map of it"},
    {"gamma: null; expected f32 (64) in GPU memory",
     "gamma: its address is not a multiple of 4 bytes",
     "gamma: the driver takes no tensor map of it"},
    {"beta: null; expected f32 (64) in GPU memory",
     "beta: its address is not a multiple of 4 bytes",
     "beta: the driver takes no tensor map of it"},
    {"workspace: null; expected 1280 bytes of GPU memory",
     "workspace: its address is not a multiple of 256 bytes",
     "workspace: the driver takes no tensor map of it"}};

}  // namespace
}  // namespace unisono_block::emitted

int block_run(const struct block_arguments* a, void* stream) {
  using namespace unisono_block::emitted;
  static_assert(sizeof(unisono_block::Conv::Params) == 896, "the parameter that is filled here");
  int major = 0;
  if (a == nullptr) return kNoArguments;
  if (const int fault = checked(shape, major)) return fault;
  const void* const given[] = {a->image, a->filter, a->y, a->bias, a->gamma, a->beta, a->workspace};
  if (const int fault = checked(pointers, given)) return fault;
  if (a->workspace_bytes < 1280) return kSmallWorkspace;
  alignas(128) unsigned char parameter[896] = {};
  fill(words, addresses, given, parameter);
  if (const int fault = encode(maps, given, parameter)) return fault;
  return enqueue(shape, reinterpret_cast<const void*>(&block_kernel), major, parameter, static_cast<cudaStream_t>(stream));
}

const char* block_text(int status) {
  using namespace unisono_block::emitted;
  constexpr int count = int(sizeof texts / sizeof texts[0]);
  for (const int kind : {kNull, kMisaligned, kMap})
    if (status <= kind && status > kind - count) return texts[kind - status][kind / kNull - 1];
  switch (status) {
    case 0: return "the kernel was enqueued";
    case kNoArguments: return "no arguments were given";
    case kOtherDevice: return "the current device is not of compute capability 9.0, which the kernel is for";
    case kNoMaps: return "the driver has no tensor maps: it is older than CUDA 12.0";
    case kSmallWorkspace: return "workspace: fewer than 1280 bytes";
    default: return status > 0 ? cudaGetErrorString(static_cast<cudaError_t>(status)) : "unknown";
  }
}

size_t block_workspace_bytes(void) { return 1280; }

#ifdef UNISONO_SELF_CHECK
#include "unisono/emitted/contraction.hpp"
#include "unisono/emitted/functions.hpp"

int main() {
  using namespace unisono_block::emitted;
  constexpr Space space{2, 16, 16, 64};
  constexpr Contraction contraction{{1, 16, 16}, 64, 1, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, false, false, false, false, false, 1.581489939859104e-06, false};
  const Tensor t0 = random_tensor(Type::bf16, 32768, space.columns);  // the image
  const Tensor t1 = random_tensor(Type::bf16, 36864, space.columns);  // the filter
  Tensor t2 = output_tensor(Type::bf16, 32768);  // output y[m,n]
  const Tensor t3 = random_tensor(Type::f32, 64, space.columns);  // operand bias[n]
  const Tensor t4 = random_tensor(Type::f32, 64, space.columns);  // operand gamma[n]
  const Tensor t5 = random_tensor(Type::f32, 64, space.columns);  // operand beta[n]
  block_arguments a{};
  a.image = t0.data();
  a.filter = t1.data();
  a.y = t2.data();
  a.bias = t3.data();
  a.gamma = t4.data();
  a.beta = t5.data();
  a.workspace_bytes = block_workspace_bytes();
  if (a.workspace_bytes > 0) {
    succeed(cudaMalloc(&a.workspace, a.workspace_bytes), "cudaMalloc");
    succeed(cudaMemset(a.workspace, 0, a.workspace_bytes), "cudaMemset");
  }
  std::vector<std::vector<unsigned char>> found[2];
  for (auto& of_launch : found) {
    t2.poison();
    if (const int status = block_run(&a, nullptr)) {
      fprintf(stderr, "block_run: %s\n", block_text(status));
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
  Values v3 = folded(space, space.images, 8, Fold::mean, 205.0, v2);
  Values v4 = each(space, space.rows(), space.columns, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v2, &v3}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return x - y; });
  v3 = Values();
  Values v5 = folded(space, space.images, 8, Fold::variance, 205.0, v2);
  v2 = Values();
  Values v6 = scalar(1e-05);
  Values v7 = each(space, space.images, 8, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v5, &v6}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return x + y; });
  v5 = Values();
  v6 = Values();
  Values v8 = each(space, space.images, 8, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v7}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return 1 / square_root(x); });
  v7 = Values();
  Values v9 = operand(space, t4, Lie::rows, 1, space.columns);
  Values v10 = each(space, space.images, space.columns, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v8, &v9}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return x * y; });
  v8 = Values();
  v9 = Values();
  Values v11 = operand(space, t5, Lie::rows, 1, space.columns);
  Values v12 = each(space, space.rows(), space.columns, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v4, &v10, &v11}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return multiply_add(x, y, z); });
  v4 = Values();
  v10 = Values();
  v11 = Values();
  Values v13 = each(space, space.rows(), space.columns, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0002593994140625, 0}, {&v12}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return silu_of(x); });  // y
  v12 = Values();
  ok &= agrees(space, t2, t2.all(), Lie::rows, v13, "y");
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
