// A convolution and its epilogue in one kernel:
//   operand slope = 0.01
//   h = acc + bias[n]
//   v = min(max(select(h > 0, h, h * slope), -limit[]), limit[])
//   y = select(v > 0, v, elu(v) * alpha[]) + clamp(fma(h, alpha[], 0.4), lower=0, upper=1)
//   store y : bf16
#include <unisono/sm90/conv_fprop.cuh>
#include <unisono/epilogue/math.cuh>
#include <unisono/epilogue/operands.cuh>

namespace unisono {

struct Config {
    using Element = Bf16;
    static constexpr int kTileM = 128, kTileN = 128, kTileK = 64;
    static constexpr int kTileWarpgroups = 1, kConsumerGroups = 2, kWarpgroupRows = 128;
    static constexpr int kStages = 4, kStagesA = 0, kHaloH = 0, kHaloW = 0, kStoreBuffers = 1;
    static constexpr int kClusterM = 1, kClusterN = 1, kGroup = 0;
    static constexpr bool kTwoDimensional = false, kSplit = false, kSwap = false, kStationary = false;
    static constexpr Norm kNorm = Norm::kNone;
    static constexpr int kUnit = 1, kMoments = 0, kFetch = 0;
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
        alignas(8) float slope;
        alignas(8) float limit;
        alignas(8) float alpha;
    };
    struct Uniform {
        float slope;
        float limit;
        float v9;
        float alpha;
    };
    static UNISONO_DEVICE Uniform uniform(const Params& p) {
        const float v9 = -p.limit;
        return {p.slope, p.limit, v9, p.alpha};
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
        const float h = acc + bias;
        const bool v4 = h > 0.f;
        const float v6 = h * u.slope;
        const float v7 = v4 ? h : v6;
        const float v10 = math::max(v7, u.v9);
        const float v = math::min(v10, u.limit);
        const bool v12 = v > 0.f;
        const float v13 = math::elu(v, 1.f);
        const float v15 = v13 * u.alpha;
        const float v16 = v12 ? v : v15;
        const float v18 = math::fma(h, u.alpha, 0.4f);
        const float v19 = math::clamp(v18, 0.f, 1.f);
        const float v20 = v16 + v19;
        return v20;
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

}  // namespace unisono

extern "C" __global__ void __launch_bounds__(unisono::Conv::kThreads, 1)
unisono_kernel(const __grid_constant__ unisono::Conv::Params params) {
    unisono::Conv::run(params);
}
