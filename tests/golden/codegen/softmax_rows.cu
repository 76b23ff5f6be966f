// A convolution and its epilogue in one kernel:
//   t0 = fma(acc, 0.5, bias[n])
//   t1 = exp(t0 - max(t0, over=n))
//   y = t1 * reciprocal(sum(t1, over=n)) * gamma[n]
//   store y : bf16
#include <unisono/sm90/conv_fprop.cuh>
#include <unisono/epilogue/math.cuh>
#include <unisono/epilogue/operands.cuh>

namespace unisono {

struct Config {
    using Element = Bf16;
    static constexpr int kTileM = 128, kTileN = 128, kTileK = 64;
    static constexpr int kTileWarpgroups = 1, kConsumerGroups = 2, kWarpgroupRows = 128;
    static constexpr int kStages = 4, kStagesA = 0, kHaloH = 0, kHaloW = 0, kStoreBuffers = 2;
    static constexpr int kClusterM = 1, kClusterN = 1, kGroup = 0;
    static constexpr bool kTwoDimensional = false, kSplit = false, kSwap = false, kStationary = false;
    static constexpr Norm kNorm = Norm::kRows;
    static constexpr int kUnit = 1, kMoments = 0, kFetch = 0;
    static constexpr bool kWide = true, kMeets = true;
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
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 1, kColumnsAfter = 1;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float bias = load<float>(p.bias, channel);
        column[0] = as_column(bias);
    }
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float gamma = load<float>(p.gamma, channel);
        column[0] = as_column(gamma);
    }

    static constexpr int kTensorsBefore = 0, kTensors = 0;
    static UNISONO_DEVICE float before(float acc, const float* column, const float* tensor, const Uniform& u) {
        const float bias = column[0];
        const float v3 = math::fma(acc, 0.5f, bias);
        return v3;
    }
    static UNISONO_DEVICE float after(float norm, float raw, const float* column, const float* tensor, const Uniform& u) {
        const float gamma = column[0];
        const float v11 = norm * gamma;
        return v11;
    }
    static UNISONO_DEVICE float side(float, const float*, const float*, const Uniform&) {
        return 0.f;
    }

    static constexpr bool kRaw = false;
    static constexpr RowStatistic kRowStatistic = RowStatistic::kSoftmax;
    static UNISONO_DEVICE float exponential(float x) {
        return math::exp(x);
    }
    struct Late {};
    static UNISONO_DEVICE Late late(const Params& p, const Uniform& u, int image, int channel) {
        return {};
    }
    static UNISONO_DEVICE float2 affine(const Late& late, const Uniform& u, float mean, float variance) {
        return {1.f, 0.f};
    }
    static constexpr bool kStatistics = false;
    static UNISONO_DEVICE void statistics(const Params& p, const Uniform& u, int image, int group, float mean, float variance) {}
};

using Conv = ConvFprop<Config, Visitor>;

}  // namespace unisono

extern "C" __global__ void __launch_bounds__(unisono::Conv::kThreads, 1)
unisono_kernel(const __grid_constant__ unisono::Conv::Params params) {
    unisono::Conv::run(params);
}
