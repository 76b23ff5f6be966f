// Written by `unisono emit`. gemm 96x64x72, B transposed, bf16: sm90_conv, 64x16/12 pingpong cluster 2x2
// Compile with nvcc of CUDA 12.3 or later; nothing else is needed, and only the CUDA runtime is linked:
//   nvcc -std=c++17 -O2 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -c FILE
// With -DUNISONO_SELF_CHECK in place of -c it is a program that runs the kernel and checks every element.
#include "dense.h"

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
#include "unisono/sm90/conv_fprop.cuh"
#include "unisono/epilogue/math.cuh"
#include "unisono/epilogue/operands.cuh"

namespace unisono_dense {

struct Config {
    using Element = Bf16;
    static constexpr int kTileM = 64, kTileN = 16, kTileK = 64;
    static constexpr int kTileWarpgroups = 1, kConsumerGroups = 2, kWarpgroupRows = 64;
    static constexpr int kStages = 12, kStagesA = 0, kHaloH = 0, kHaloW = 0, kStoreBuffers = 1;
    static constexpr int kClusterM = 2, kClusterN = 2, kGroup = 0;
    static constexpr bool kTwoDimensional = false, kSplit = false, kSwap = false, kStationary = false;
    static constexpr Norm kNorm = Norm::kNone;
    static constexpr int kUnit = 1, kMoments = 0, kFetch = 0;
    static constexpr bool kWide = false, kMeets = false;
    static constexpr Stores kStores = Stores::kTma;
    using Operands = Matrices<false, false, false>;  // A is (k, m), B is (k, n), one B for each A
    using Resample = AsItIs;
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

using Conv = ConvFprop<Config, Visitor>;

}  // namespace unisono_dense

extern "C" __global__ void __launch_bounds__(unisono_dense::Conv::kThreads, 1)
dense_kernel(const __grid_constant__ unisono_dense::Conv::Params params) {
    unisono_dense::Conv::run(params);
}
#include "unisono/emitted/launch.hpp"

// ---- The host function

namespace unisono_dense::emitted {
namespace {

// What every launch has in its parameter, then what arguments give
constexpr Word words_elements[] = {
    {512, 0x6000000001},
    {520, 0x100000040},
    {528, 0x200000002},
    {536, 0x6000000001},
    {544, 0x10000000c},
    {552, 0x200000001},
    {560, 0x100000001},
    {568, 0x1},
    {576, 0x100000000},
    {584, 0x8000000000000001},
    {592, 0x8000000000000020},
    {600, 0x800000000000001f},
    {608, 0x8000000000000020},
    {616, 0x8000000000000020},
    {624, 0xaaaaaaab0000001f},
    {632, 0xaaaaaaab00000023},
    {640, 0xaaaaaaab00000026},
    {648, 0x8000000000000026},
    {656, 0x10000001f},
    {680, 0x1f80000000}};
constexpr List<Word> words{words_elements, 20};
constexpr Place addresses_elements[] = {
    {3, 832, 0}};
constexpr List<Place> addresses{addresses_elements, 1};
constexpr Map maps_elements[] = {
    {0, 0, 0, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, {72, 96, 1, 1, 0}, {144, 13824, 0, 0}, {64, 64, 1, 1, 0}, {1, 1, 1, 1, 1}, false, {0, 0, 0}, {0, 0, 0}, 0, 0, CU_TENSOR_MAP_SWIZZLE_128B},
    {1, 128, 0, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, {72, 1, 64, 1, 0}, {144, 144, 0, 0}, {64, 1, 16, 1, 0}, {1, 1, 1, 1, 1}, false, {0, 0, 0}, {0, 0, 0}, 0, 0, CU_TENSOR_MAP_SWIZZLE_128B},
    {2, 256, 0, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, {64, 96, 1, 1, 0}, {128, 12288, 12288, 0}, {16, 16, 1, 1, 0}, {1, 1, 1, 1, 1}, false, {0, 0, 0}, {0, 0, 0}, 0, 0, CU_TENSOR_MAP_SWIZZLE_32B}};
constexpr List<Map> maps{maps_elements, 3};
constexpr Argument pointers_elements[] = {
    {16, false},
    {16, false},
    {16, false},
    {4, false}};
constexpr List<Argument> pointers{pointers_elements, 4};
// CTAs, threads, CTAs of a cluster, bytes of shared memory, whether CTAs wait for one another; the GPU
constexpr Shape shape{8, 384, 4, 134352, false, 9, 0, true};
constexpr const char* texts[][3] = {
    {"left: null; expected bf16 (1,96,72) in GPU memory",
     "left: its address is not a multiple of 16 bytes",
     "left: the driver takes no tensor map of it"},
    {"right: null; expected bf16 (1,64,72) in GPU memory",
     "right: its address is not a multiple of 16 bytes",
     "right: the driver takes no tensor map of it"},
    {"y: null; expected bf16 (1,96,64) in GPU memory",
     "y: its address is not a multiple of 16 bytes",
     "y: the driver takes no tensor map of it"},
    {"bias: null; expected f32 (64) in GPU memory",
     "bias: its address is not a multiple of 4 bytes",
     "bias: the driver takes no tensor map of it"}};

}  // namespace
}  // namespace unisono_dense::emitted

int dense_run(const struct dense_arguments* a, void* stream) {
  using namespace unisono_dense::emitted;
  static_assert(sizeof(unisono_dense::Conv::Params) == 896, "the parameter that is filled here");
  int major = 0;
  if (a == nullptr) return kNoArguments;
  if (const int fault = checked(shape, major)) return fault;
  const void* const given[] = {a->left, a->right, a->y, a->bias};
  if (const int fault = checked(pointers, given)) return fault;
  alignas(128) unsigned char parameter[896] = {};
  fill(words, addresses, given, parameter);
  if (const int fault = encode(maps, given, parameter)) return fault;
  return enqueue(shape, reinterpret_cast<const void*>(&dense_kernel), major, parameter, static_cast<cudaStream_t>(stream));
}

const char* dense_text(int status) {
  using namespace unisono_dense::emitted;
  constexpr int count = int(sizeof texts / sizeof texts[0]);
  for (const int kind : {kNull, kMisaligned, kMap})
    if (status <= kind && status > kind - count) return texts[kind - status][kind / kNull - 1];
  switch (status) {
    case 0: return "the kernel was enqueued";
    case kNoArguments: return "no arguments were given";
    case kOtherDevice: return "the current device is not of compute capability 9.0, which the kernel is for";
    case kNoMaps: return "the driver has no tensor maps: it is older than CUDA 12.0";
    case kSmallWorkspace: return "workspace: fewer than 0 bytes";
    default: return status > 0 ? cudaGetErrorString(static_cast<cudaError_t>(status)) : "unknown";
  }
}

size_t dense_workspace_bytes(void) { return 0; }

#ifdef UNISONO_SELF_CHECK
#include "unisono/emitted/contraction.hpp"
#include "unisono/emitted/functions.hpp"

int main() {
  using namespace unisono_dense::emitted;
  constexpr Space space{1, 96, 1, 64};
  constexpr Contraction contraction{{1, 96, 1}, 72, 1, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, false, false, true, false, false, 8.596304119739507e-07, false};
  const Tensor t0 = random_tensor(Type::bf16, 6912, space.columns);  // the left matrix
  const Tensor t1 = random_tensor(Type::bf16, 4608, space.columns);  // the right matrix
  Tensor t2 = output_tensor(Type::bf16, 6144);  // output y[m,n]
  const Tensor t3 = random_tensor(Type::f32, 64, space.columns);  // operand bias[n]
  dense_arguments a{};
  a.left = t0.data();
  a.right = t1.data();
  a.y = t2.data();
  a.bias = t3.data();
  a.workspace_bytes = dense_workspace_bytes();
  if (a.workspace_bytes > 0) {
    succeed(cudaMalloc(&a.workspace, a.workspace_bytes), "cudaMalloc");
    succeed(cudaMemset(a.workspace, 0, a.workspace_bytes), "cudaMemset");
  }
  std::vector<std::vector<unsigned char>> found[2];
  for (auto& of_launch : found) {
    t2.poison();
    if (const int status = dense_run(&a, nullptr)) {
      fprintf(stderr, "dense_run: %s\n", dense_text(status));
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
