// A convolution and its epilogue in one kernel:
//   h = acc + (bias[n] + temb[b,n])
//   t0 = fma(h - mean(h, over=(m,n), per=b, groups=32), rsqrt(variance(h, over=(m,n), per=b, groups=32) + 1e-5) * gamma[n], beta[n])
//   y = mish(t0)
//   store y : bf16
//   store h : bf16
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
    static constexpr Norm kNorm = Norm::kResident;
    static constexpr int kUnit = 2, kMoments = 0, kFetch = 0;
    static constexpr bool kWide = false, kMeets = false;
    static constexpr Stores kStores = Stores::kTma;
    using Operands = Images;
    using Resample = AsItIs;
};

struct Visitor {
    using Output = Bf16;
    using Side = Bf16;
    static constexpr SideStore kSide = SideStore::kBefore;
    struct Params {
        const void* bias;  // f32 [n]
        const void* temb;  // f32 [b,n]
        const void* gamma;  // f32 [n]
        const void* beta;  // f32 [n]
        alignas(8) int channels;
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 1, kColumnsAfter = 0;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float bias = load<float>(p.bias, channel);
        const float temb = load<float>(p.temb, image * p.channels + channel);
        const float v3 = bias + temb;
        column[0] = as_column(v3);
    }
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {}

    static constexpr int kTensorsBefore = 0, kTensors = 0;
    static UNISONO_DEVICE float before(float acc, const float* column, const float* tensor, const Uniform& u) {
        const float v3 = column[0];
        const float h = acc + v3;
        return h;
    }
    static UNISONO_DEVICE float after(float norm, float raw, const float* column, const float* tensor, const Uniform& u) {
        const float y = math::mish(norm);
        return y;
    }
    static UNISONO_DEVICE float side(float acc, const float* column, const float* tensor, const Uniform& u) {
        const float v3 = column[0];
        const float h = acc + v3;
        return h;
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
        const float v9 = variance + 1e-05f;
        const float v10 = math::accurate::rsqrt(v9);
        const float v12 = v10 * late.gamma;
        return {v12, late.beta};
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
