// Host side of one kernel instance: tensor maps, geometry, workspace, launch.
#pragma once
#include "probe.h"
#include "unisono/epilogue/math.cuh"
#include "unisono/sm90/conv_fprop.cuh"

#include <numeric>

namespace probe {

using namespace unisono;

inline void* driver_entry(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result;
  CHECK_CUDA(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &result));
  return entry;
}

inline CUtensorMapSwizzle swizzle_of(int row_bytes) {
  return row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : row_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                           : CU_TENSOR_MAP_SWIZZLE_NONE;
}

template <int kRank>
bool tiled_map(TensorMap& out, void* base, const uint64_t (&dims)[kRank], const uint64_t (&strides)[kRank - 1],
               const uint32_t (&box)[kRank], Type type) {
  static auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(driver_entry("cuTensorMapEncodeTiled"));
  const uint32_t steps[5] = {1, 1, 1, 1, 1};
  const auto status =
      encode(reinterpret_cast<CUtensorMap*>(&out),
             type == Type::kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, kRank, base,
             dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(int(box[0]) * 2),
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return status == CUDA_SUCCESS;
}

// Rows of the matrix product are output pixels; the box of a filter tap covers the input positions of all of them.
inline bool im2col_map(TensorMap& out, const ConvShape& p, void* x, int channels, int pixels, Type type) {
  static auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeIm2col)>(driver_entry("cuTensorMapEncodeIm2col"));
  const uint64_t dims[4] = {uint64_t(p.c), uint64_t(p.w), uint64_t(p.h), uint64_t(p.n)};
  const uint64_t strides[3] = {uint64_t(p.c) * 2, uint64_t(p.c) * 2 * p.w, uint64_t(p.c) * 2 * p.w * p.h};
  const int lower[2] = {-p.pad, -p.pad};
  const int upper[2] = {p.pad - (p.s - 1) * p.dilation, p.pad - (p.r - 1) * p.dilation};
  const uint32_t steps[4] = {1, uint32_t(p.stride), uint32_t(p.stride), 1};
  const auto status =
      encode(reinterpret_cast<CUtensorMap*>(&out),
             type == Type::kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, x, dims,
             strides, lower, upper, channels, pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(channels * 2),
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return status == CUDA_SUCCESS;
}

template <class Conv>
__global__ void __launch_bounds__(Conv::kThreads, 1) conv_kernel(const __grid_constant__ typename Conv::Params params) {
  Conv::run(params);
}

inline int sms() {
  static int count = [] {
    int n;
    CHECK_CUDA(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0));
    return n;
  }();
  return count;
}

// CTAs that fit at once, in whole clusters.
template <class Conv>
int resident_ctas() {
  static int ctas = [] {
    CHECK_CUDA(
        cudaFuncSetAttribute(conv_kernel<Conv>, cudaFuncAttributeMaxDynamicSharedMemorySize, Conv::kSharedBytes));
    if (Conv::kClusterCtas == 1) return sms();
    if (Conv::kClusterCtas > 8)
      CHECK_CUDA(cudaFuncSetAttribute(conv_kernel<Conv>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(Conv::kClusterCtas * 32), config.blockDim = dim3(Conv::kThreads),
    config.dynamicSmemBytes = Conv::kSharedBytes;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(Conv::kClusterCtas), 1, 1};
    config.attrs = &attribute, config.numAttrs = 1;
    int clusters = 0;
    CHECK_CUDA(cudaOccupancyMaxActiveClusters(&clusters, conv_kernel<Conv>, &config));
    return clusters * Conv::kClusterCtas;
  }();
  return ctas;
}

inline size_t take(size_t& used, size_t bytes) {
  const size_t at = (used + 255) / 256 * 256;
  used = at + bytes;
  return at;
}

constexpr int kLargestSplit = 8;
constexpr int kLargestTeam = 128;

template <class Config, class Visitor>
Launch prepare(const ConvShape& p, const Operands& o, Workspace workspace, std::string& reason) {
  using Conv = ConvFprop<Config, Visitor>;
  constexpr bool kNorm = Config::kNorm != Norm::kNone;
  constexpr Type type = Same<typename Config::Element, Bf16>::value ? Type::kBf16 : Type::kF16;
  auto params = std::make_shared<typename Conv::Params>();
  auto& fixed = params->fixed;
  auto& g = fixed.geometry;
  const int pixels = p.p() * p.q();
  constexpr bool kTwoDimensional = Config::kTwoDimensional, kPerImage = kNorm || kTwoDimensional;
  if (kTwoDimensional &&
      (p.stride != 1 || (p.r - 1) * p.dilation > Config::kHaloH || (p.s - 1) * p.dilation != Config::kHaloW))
    return reason = "patches: stride 1 and a halo of kHaloH lines, kHaloW pixels", nullptr;
  g.images = kPerImage ? p.n : 1, g.rows = kPerImage ? pixels : p.n * pixels, g.channels = p.k;
  g.tiles_w = divide_up(p.q(), 8);
  const int tiles_m = kTwoDimensional ? divide_up(p.p(), Conv::kM / 8) * g.tiles_w : divide_up(g.rows, Conv::kM);
  g.tiles_m = divide_up(tiles_m, Conv::kClusterM);
  g.tiles_n = divide_up(divide_up(g.channels, Conv::kN), Conv::kClusterN);
  g.tiles = g.tiles_m * g.tiles_n * g.images;
  g.height = p.p(), g.width = p.q(), g.taps_h = p.r, g.taps_w = p.s, g.channel_blocks = divide_up(p.c, Conv::kK);
  g.stride_h = g.stride_w = p.stride, g.pad_h = g.pad_w = p.pad, g.dilation_h = g.dilation_w = p.dilation;

  const uint64_t c = p.c, taps = uint64_t(p.r) * p.s, k = p.k, w = p.w, h = p.h, n = p.n;
  if (kTwoDimensional) {
    const uint32_t lines = Conv::kM / 8 + (p.r - 1) * p.dilation;
    if (!tiled_map<4>(fixed.activation, o.x, {c, w, h, n}, {c * 2, c * w * 2, c * w * h * 2},
                      {uint32_t(Conv::kK), uint32_t(8 + Config::kHaloW), lines, 1}, type))
      return reason = "patch map refused", nullptr;
  } else if (!im2col_map(fixed.activation, p, o.x, Conv::kK, Conv::kM, type)) {
    return reason = "im2col map refused", nullptr;
  }
  if (!tiled_map<3>(fixed.filter, o.w, {c, taps, k}, {c * 2, c * 2 * taps}, {uint32_t(Conv::kK), 1, uint32_t(Conv::kN)},
                    type))
    return reason = "filter map refused", nullptr;
  const uint64_t x = kTwoDimensional ? p.q() : g.rows, y = kTwoDimensional ? p.p() : 1;
  if (!tiled_map<4>(fixed.output, o.y, {k, x, y, uint64_t(g.images)}, {k * 2, k * 2 * x, k * 2 * x * y},
                    {uint32_t(Conv::Tail::kSlice), kTwoDimensional ? 8u : 16u, kTwoDimensional ? 2u : 1u, 1}, type))
    return reason = "output map refused", nullptr;

  const int resident = resident_ctas<Conv>(), tiles_in_flight = resident / Conv::kClusterCtas * Config::kConsumerGroups;
  const int loads = (kTwoDimensional ? 1 : p.r * p.s) * g.channel_blocks;
  g.splits = 1;
  if (Conv::kSplit) g.splits = smaller(smaller(resident / g.tiles, loads), kLargestSplit);
  set_divisors(g, 0);
  if (Conv::kSplit && g.splits < 2) return reason = "enough tiles without split-K", nullptr;
  const int clusters = resident / Conv::kClusterCtas, rounds = divide_up(g.tiles * g.splits, clusters),
            ctas = divide_up(g.tiles * g.splits, rounds) * Conv::kClusterCtas;
  size_t used = 0;
  if constexpr (Conv::kWorkspace) {
    const size_t exits = take(used, 8);
    fixed.launch = {reinterpret_cast<u32*>(workspace.memory + exits), u32(ctas) * kEpochs - 1, divisor(u64(ctas))};
  }
  if constexpr (kNorm) {
    auto& n = fixed.norm;
    n.slots_per_image = g.tiles_m * Conv::kClusterM * Config::kTileWarpgroups;
    n.segment_slots = 1;
    if (n.slots_per_image * (Conv::kN / Config::kUnit) > (Config::kNorm == Norm::kStreamed ? 4 * 32 : 8 * 128))
      n.segment_slots = divide_up(n.slots_per_image, divide_up(n.slots_per_image, kLargestTeam));
    n.segments_per_image = divide_up(n.slots_per_image, n.segment_slots);
    n.group_channels = p.k / p.groups, n.by_group_channels = divisor(n.group_channels);
    if (n.group_channels % Config::kUnit != 0) return reason = "a group is not a number of whole units", nullptr;
    const int held = Config::kNorm == Norm::kResident ? tiles_in_flight : 1 << 30;
    if (g.tiles_m * g.tiles_n > held) return reason = "an image's tiles do not fit on the chip", nullptr;
    const size_t row = size_t(p.n) * (p.k / Config::kUnit) * 16;
    const size_t slots = take(used, row * n.slots_per_image),
                 segments = n.segment_slots > 1 ? take(used, row * n.segments_per_image) : slots;
    n.slots = reinterpret_cast<Entry*>(workspace.memory + slots),
    n.segments = reinterpret_cast<Entry*>(workspace.memory + segments);
  }
  if constexpr (Conv::kSplit) {
    const size_t parts = size_t(g.tiles) * (g.splits - 1) * Config::kTileWarpgroups;
    const size_t flags = take(used, parts * 4), partials = take(used, parts * Config::kWarpgroupRows * Conv::kN * 4);
    fixed.split = {workspace.memory + partials, reinterpret_cast<u32*>(workspace.memory + flags)};
  }
  if (used > workspace.bytes) return reason = "workspace too small", nullptr;
  params->visitor = {o.bias, o.gamma, o.beta, o.residual};
  fixed.timeline = reinterpret_cast<u64*>(trace_buffer());

  return [params, ctas](cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(ctas), config.blockDim = dim3(Conv::kThreads), config.dynamicSmemBytes = Conv::kSharedBytes,
    config.stream = stream;
    cudaLaunchAttribute attributes[2]{};
    int count = 0;
    if (Conv::kClusterCtas > 1)
      attributes[count].id = cudaLaunchAttributeClusterDimension,
      attributes[count++].val.clusterDim = {unsigned(Conv::kClusterCtas), 1, 1};
    if (Conv::kWorkspace)
      attributes[count].id = cudaLaunchAttributeCooperative, attributes[count++].val.cooperative = 1;
    config.attrs = attributes, config.numAttrs = count;
    return cudaLaunchKernelEx(&config, conv_kernel<Conv>, *params);
  };
}

// --- visitors as generated code would write them ---------------------------------------------------------

struct VisitorParams {
  const float *bias, *gamma, *beta;
  const u16* residual;
};

struct VisitorBase {
  using Params = VisitorParams;
  using Output = Bf16;
  using Side = Bf16;
  static constexpr SideStore kSide = SideStore::kNone;
  struct Uniform {};
  static UNISONO_DEVICE Uniform uniform(const Params&) { return {}; }
  static constexpr int kColumnsBefore = 0, kColumnsAfter = 0, kTensorsBefore = 0, kTensors = 0;
  static UNISONO_DEVICE void columns_before(const Params&, const Uniform&, int, int, float*) {}
  static UNISONO_DEVICE void columns_after(const Params&, const Uniform&, int, int, float*) {}
  template <int>
  static UNISONO_DEVICE TensorSource<Bf16> tensor(const Params& p) {
    return {p.residual};
  }
  static UNISONO_DEVICE float before(float x, const float*, const float*, const Uniform&) { return x; }
  static UNISONO_DEVICE float after(float x, float, const float*, const float*, const Uniform&) { return x; }
  static constexpr bool kRaw = false, kStatistics = false;
  struct Late {
    float scale, shift;
  };
  static UNISONO_DEVICE Late late(const Params& p, const Uniform&, int, int channel) {
    return {__ldg(p.gamma + channel), __ldg(p.beta + channel)};
  }
  static UNISONO_DEVICE float2 affine(const Late& late, const Uniform&, float, float variance) {
    return {late.scale * rsqrtf(variance + 1e-5f), late.shift};
  }
};
struct Bare : VisitorBase {
  static constexpr Work kWork = Work::kBare;
};
struct BiasBase : VisitorBase {
  static UNISONO_DEVICE void columns_after(const Params& p, const Uniform&, int, int channel, float* column) {
    column[0] = __ldg(p.bias + channel);
  }
  static constexpr int kColumnsAfter = 1;
};
struct Bias : BiasBase {
  static constexpr Work kWork = Work::kBias;
  static UNISONO_DEVICE float after(float x, float, const float* column, const float*, const Uniform&) {
    return x + column[0];
  }
};
struct BiasSilu : BiasBase {
  static constexpr Work kWork = Work::kBiasSilu;
  static UNISONO_DEVICE float after(float x, float, const float* column, const float*, const Uniform&) {
    return math::silu(x + column[0]);
  }
};
struct Block : VisitorBase {
  static constexpr Work kWork = Work::kBlock;
  static constexpr int kColumnsBefore = 1;
  static UNISONO_DEVICE void columns_before(const Params& p, const Uniform&, int, int channel, float* column) {
    column[0] = __ldg(p.bias + channel);
  }
  static UNISONO_DEVICE float before(float x, const float* column, const float*, const Uniform&) {
    return x + column[0];
  }
  static UNISONO_DEVICE float after(float x, float, const float*, const float*, const Uniform&) {
    return math::silu(x);
  }
};
struct BlockResidual : Block {
  static constexpr Work kWork = Work::kBlockResidual;
  static constexpr int kTensors = 1;
  static UNISONO_DEVICE float after(float x, float, const float*, const float* tensor, const Uniform&) {
    return math::silu(x) + tensor[0];
  }
};
// The same for half precision.
template <class Visitor>
struct InHalf : Visitor {
  using Output = F16;
  using Side = F16;
  template <int>
  static UNISONO_DEVICE TensorSource<F16> tensor(const VisitorParams& p) {
    return {p.residual};
  }
};

// --- configurations --------------------------------------------------------------------------------------

// Runs: kStageCount stages. Patches: kStageCount of filters and kStageCountA of activations.
enum class Order { kCooperative, kPingPong, kPingPongPairs };

template <class E, int kRows, int kColumns, int kStageCount, Order kOrder, Norm kMode = Norm::kNone, int kBuffers = 1,
          int kStageCountA = 0, int kUnitChannels = 1, bool kDivide = false, int kAlongM = 1, int kAlongN = 1,
          int kDepth = 64, bool kSwapped = false>
struct Shape {
  using Element = E;
  static constexpr int kTileM = kRows, kTileN = kColumns, kTileK = kDepth, kStages = kStageCount,
                       kStagesA = kStageCountA, kHaloH = 2, kHaloW = 2;
  static constexpr int kClusterM = kAlongM, kClusterN = kAlongN, kStoreBuffers = kBuffers;
  static constexpr int kTileWarpgroups = kOrder == Order::kPingPong ? 1 : 2,
                       kConsumerGroups = kOrder == Order::kCooperative ? 1 : 2;
  static constexpr int kWarpgroupRows = kRows / kTileWarpgroups;
  static constexpr bool kTwoDimensional = kStageCountA > 0, kSplit = kDivide, kSwap = kSwapped;
  static constexpr Norm kNorm = kMode;
  static constexpr int kUnit = kUnitChannels, kGroup = 0, kMoments = 0, kFetch = 0;
  static constexpr bool kStationary = false, kWide = false, kMeets = false;
  static constexpr Stores kStores = Stores::kTma;
  using Operands = Images;
  using Resample = AsItIs;
  using Head = NoHead;
};

template <class Config, class Visitor>
struct Register {
  Register() {
    char text[96];
    const std::string cluster = Config::kClusterM * Config::kClusterN > 1
                                    ? " c" + std::to_string(Config::kClusterM) + "x" + std::to_string(Config::kClusterN)
                                    : "";
    std::snprintf(text, sizeof text, "%dx%d/%d%s%s%s%s%s", Config::kTileM, Config::kTileN, Config::kStages,
                  Config::kTwoDimensional ? ("+" + std::to_string(Config::kStagesA)).c_str() : "",
                  Config::kConsumerGroups == 1   ? " co"
                  : Config::kTileWarpgroups == 1 ? " pp"
                                                 : " p2",
                  cluster.c_str(),
                  Config::kSplit  ? " sk"
                  : Config::kSwap ? " sw"
                                  : "",
                  Config::kNorm == Norm::kResident   ? " res"
                  : Config::kNorm == Norm::kStreamed ? " str"
                                                     : "");
    variants().push_back({text, Visitor::kWork, Same<typename Config::Element, Bf16>::value ? Type::kBf16 : Type::kF16,
                          Config::kNorm == Norm::kStreamed, prepare<Config, Visitor>});
  }
};

}  // namespace probe
