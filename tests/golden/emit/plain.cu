// Written by `unisono emit`. conv2d 1x7x9x5 -> 12, 3x3, stride 2x2, pad 1, nchw, f16: plain, plain 8x32 direct streamed, f16 by f16 without tensor cores
// Compile with nvcc of CUDA 12.3 or later; nothing else is needed, and only the CUDA runtime is linked:
//   nvcc -std=c++17 -O2 --expt-relaxed-constexpr -arch=sm_75 (or later) -c FILE
// With -DUNISONO_SELF_CHECK in place of -c it is a program that runs the kernel and checks every element.
#include "plain.h"

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
//   y = (acc - mean(acc, over=(m,n), per=b, groups=3)) * (rsqrt(variance(acc, over=(m,n), per=b, groups=3) + 1e-5) * g[n])
//   store y : f16
#include "unisono/plain/conv.cuh"
#include "unisono/epilogue/math.cuh"
#include "unisono/epilogue/operands.cuh"

namespace unisono_plain {

struct Config {
    using Image = F16;
    using Filter = F16;
    static constexpr int kTileM = 8, kTileN = 32, kTileK = 1, kEachM = 1, kEachN = 1, kThreads = 256, kBlocks = 1;
    static constexpr bool kDirect = true, kTransposed = false, kRowsFirst = true, kColumnsFirst = false, kPlanes = true;
    static constexpr bool kGeneral = false, kNormalises = true, kPerPixel = false;
};

struct Visitor {
    using Output = F16;
    using Side = F16;
    static constexpr SideStore kSide = SideStore::kNone;
    struct Params {
        const void* g;  // f32 [n]
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 0, kColumnsAfter = 0;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform& u, int image, int channel, float* column) {}
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {}

    static constexpr int kTensorsBefore = 0, kTensors = 0;
    static UNISONO_DEVICE float before(float acc, const float* column, const float* tensor, const Uniform& u) {
        return acc;
    }
    static UNISONO_DEVICE float after(float norm, float raw, const float* column, const float* tensor, const Uniform& u) {
        return norm;
    }
    static UNISONO_DEVICE float side(float, const float*, const float*, const Uniform&) {
        return 0.f;
    }

    static constexpr bool kRaw = false;
    struct Late {
        float g;
    };
    static UNISONO_DEVICE Late late(const Params& p, const Uniform& u, int image, int channel) {
        const float g = load<float>(p.g, channel);
        return {g};
    }
    static UNISONO_DEVICE float2 affine(const Late& late, const Uniform& u, float mean, float variance) {
        const float v5 = variance + 1e-05f;
        const float v6 = math::accurate::rsqrt(v5);
        const float v8 = v6 * late.g;
        return {v8, 0.f};
    }
    static constexpr bool kStatistics = false;
    static UNISONO_DEVICE void statistics(const Params& p, const Uniform& u, int image, int group, float mean, float variance) {}
};

using Conv = PlainConv<Config, Visitor>;

}  // namespace unisono_plain

extern "C" __global__ void __launch_bounds__(unisono_plain::Conv::kThreads, unisono_plain::Conv::kBlocks)
plain_kernel(const __grid_constant__ unisono_plain::Conv::Params params) {
    unisono_plain::Conv::run(params);
}
#include "unisono/emitted/launch.hpp"

// ---- The host function

namespace unisono_plain::emitted {
namespace {

// What every launch has in its parameter, then what arguments give
constexpr Word words_elements[] = {
    {32, 0xc},
    {40, 0x1400000001},
    {48, 0x50000000c},
    {56, 0x700000014},
    {64, 0x2d00000009},
    {72, 0xc00000005},
    {80, 0x200000001},
    {88, 0x100000002},
    {96, 0x100000001},
    {104, 0x300000001},
    {112, 0x300000003},
    {120, 0x300000001},
    {128, 0x13b},
    {136, 0x9},
    {144, 0x1},
    {152, 0x3f},
    {168, 0x21c},
    {176, 0x2d},
    {184, 0x1},
    {192, 0x9},
    {200, 0x1f80000000},
    {208, 0x21aaaaaaab},
    {216, 0x1f80000000},
    {224, 0x24cccccccd},
    {232, 0x22cccccccd},
    {240, 0x22cccccccd},
    {248, 0x23aaaaaaab},
    {256, 0x21aaaaaaab},
    {264, 0x2080000000},
    {272, 0x2080000000},
    {312, 0x300000004},
    {328, 0x2180000000}};
constexpr List<Word> words{words_elements, 32};
constexpr Place addresses_elements[] = {
    {0, 0, 0},
    {1, 8, 0},
    {2, 16, 0},
    {3, 344, 0},
    {4, 280, 512},
    {4, 288, 256},
    {4, 296, 0},
    {4, 304, 4}};
constexpr List<Place> addresses{addresses_elements, 8};
constexpr List<Map> maps{nullptr, 0};
constexpr Argument pointers_elements[] = {
    {16, false},
    {16, false},
    {16, false},
    {4, false},
    {256, false}};
constexpr List<Argument> pointers{pointers_elements, 5};
// CTAs, threads, CTAs of a cluster, bytes of shared memory, whether CTAs wait for one another; the GPU
constexpr Shape shape{3, 256, 1, 1024, true, 7, 5, false};
constexpr const char* texts[][3] = {
    {"image: null; expected f16 (1,5,7,9) in GPU memory",
     "image: its address is not a multiple of 16 bytes",
     "image: the driver takes no tensor map of it"},
    {"filter: null; expected f16 (12,5,3,3) in GPU memory",
     "filter: its address is not a multiple of 16 bytes",
     "filter: the driver takes no tensor map of it"},
    {"y: null; expected f16 (1,12,4,5) in GPU memory",
     "y: its address is not a multiple of 16 bytes",
     "y: the driver takes no tensor map of it"},
    {"g: null; expected f32 (12) in GPU memory",
     "g: its address is not a multiple of 4 bytes",
     "g: the driver takes no tensor map of it"},
    {"workspace: null; expected 1472 bytes of GPU memory",
     "workspace: its address is not a multiple of 256 bytes",
     "workspace: the driver takes no tensor map of it"}};

}  // namespace
}  // namespace unisono_plain::emitted

int plain_run(const struct plain_arguments* a, void* stream) {
  using namespace unisono_plain::emitted;
  static_assert(sizeof(unisono_plain::Conv::Params) == 352, "the parameter that is filled here");
  int major = 0;
  if (a == nullptr) return kNoArguments;
  if (const int fault = checked(shape, major)) return fault;
  const void* const given[] = {a->image, a->filter, a->y, a->g, a->workspace};
  if (const int fault = checked(pointers, given)) return fault;
  if (a->workspace_bytes < 1472) return kSmallWorkspace;
  alignas(128) unsigned char parameter[352] = {};
  fill(words, addresses, given, parameter);
  if (const int fault = encode(maps, given, parameter)) return fault;
  return enqueue(shape, reinterpret_cast<const void*>(&plain_kernel), major, parameter, static_cast<cudaStream_t>(stream));
}

const char* plain_text(int status) {
  using namespace unisono_plain::emitted;
  constexpr int count = int(sizeof texts / sizeof texts[0]);
  for (const int kind : {kNull, kMisaligned, kMap})
    if (status <= kind && status > kind - count) return texts[kind - status][kind / kNull - 1];
  switch (status) {
    case 0: return "the kernel was enqueued";
    case kNoArguments: return "no arguments were given";
    case kOtherDevice: return "the current device is not of compute capability 7.5 or later, which the kernel is for";
    case kNoMaps: return "the driver has no tensor maps: it is older than CUDA 12.0";
    case kSmallWorkspace: return "workspace: fewer than 1472 bytes";
    default: return status > 0 ? cudaGetErrorString(static_cast<cudaError_t>(status)) : "unknown";
  }
}

size_t plain_workspace_bytes(void) { return 1472; }

#ifdef UNISONO_SELF_CHECK
#include "unisono/emitted/contraction.hpp"
#include "unisono/emitted/functions.hpp"

int main() {
  using namespace unisono_plain::emitted;
  constexpr Space space{1, 4, 5, 12};
  constexpr Contraction contraction{{1, 7, 9}, 5, 1, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 1, false, true, false, false, false, 7.90744969929552e-07, false};
  const Tensor t0 = random_tensor(Type::f16, 315, space.columns);  // the image
  const Tensor t1 = random_tensor(Type::f16, 540, space.columns);  // the filter
  Tensor t2 = output_tensor(Type::f16, 240);  // output y[m,n]
  const Tensor t3 = random_tensor(Type::f32, 12, space.columns);  // operand g[n]
  plain_arguments a{};
  a.image = t0.data();
  a.filter = t1.data();
  a.y = t2.data();
  a.g = t3.data();
  a.workspace_bytes = plain_workspace_bytes();
  if (a.workspace_bytes > 0) {
    succeed(cudaMalloc(&a.workspace, a.workspace_bytes), "cudaMalloc");
    succeed(cudaMemset(a.workspace, 0, a.workspace_bytes), "cudaMemset");
  }
  std::vector<std::vector<unsigned char>> found[2];
  for (auto& of_launch : found) {
    t2.poison();
    if (const int status = plain_run(&a, nullptr)) {
      fprintf(stderr, "plain_run: %s\n", plain_text(status));
      return 2;
    }
    succeed(cudaDeviceSynchronize(), "the kernel");
    of_launch = {t2.all()};
  }
  bool ok = found[0] == found[1];
  if (!ok) printf("two launches have different bits\n");
  Values v0 = multiplied(space, contraction, t0.values, t1.values);
  Values v1 = folded(space, space.images, 3, Fold::mean, 189.0, v0);
  Values v2 = each(space, space.rows(), space.columns, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v0, &v1}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return x - y; });
  v1 = Values();
  Values v3 = folded(space, space.images, 3, Fold::variance, 189.0, v0);
  v0 = Values();
  Values v4 = scalar(1e-05);
  Values v5 = each(space, space.images, 3, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v3, &v4}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return x + y; });
  v3 = Values();
  v4 = Values();
  Values v6 = each(space, space.images, 3, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v5}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return 1 / square_root(x); });
  v5 = Values();
  Values v7 = operand(space, t3, Lie::rows, 1, space.columns);
  Values v8 = each(space, space.images, space.columns, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v6, &v7}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return x * y; });
  v6 = Values();
  v7 = Values();
  Values v9 = each(space, space.rows(), space.columns, Bound{4.76837158203125e-07, 7.52316384526264e-37, 0.0, 0}, {&v2, &v8}, []([[maybe_unused]] double x, [[maybe_unused]] double y, [[maybe_unused]] double z) { return x * y; });
  v2 = Values();
  v8 = Values();
  ok &= agrees(space, t2, t2.all(), Lie::channels_first, v9, "y");
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
