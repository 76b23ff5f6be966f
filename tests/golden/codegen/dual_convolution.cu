// A convolution and its epilogue in one kernel:
//   x = sigmoid(acc0 + bias[n]) * acc1
//   t0 = (x - mean(x, over=(m,n), per=b, groups=32)) * rsqrt(variance(x, over=(m,n), per=b, groups=32) + 1e-5)
//   y = silu(t0)
//   store x as gated : bf16
//   store y : bf16
#include <unisono/sm90/conv_fprop.cuh>
#include <unisono/epilogue/math.cuh>
#include <unisono/epilogue/operands.cuh>

namespace unisono {

struct Config {
    using Element = Bf16;
    static constexpr int kTileM = 128, kTileN = 64, kTileK = 64;
    static constexpr int kTileWarpgroups = 1, kConsumerGroups = 2, kWarpgroupRows = 128;
    static constexpr int kStages = 4, kStagesA = 2, kHaloH = 2, kHaloW = 2, kStoreBuffers = 1;
    static constexpr int kClusterM = 1, kClusterN = 1, kGroup = 0;
    static constexpr bool kTwoDimensional = true, kSplit = false, kSwap = false, kStationary = false;
    static constexpr Norm kNorm = Norm::kResident;
    static constexpr int kUnit = 2, kMoments = 0, kFetch = 0;
    static constexpr bool kWide = false, kMeets = false;
    static constexpr Stores kStores = Stores::kTma;
    using Operands = DualImages;  // two filters of the same image
    using Resample = AsItIs;
};

struct Visitor {
    using Output = Bf16;
    using Side = Bf16;
    static constexpr SideStore kSide = SideStore::kBefore;
    struct Params {
        const void* bias;  // f32 [n]
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 1, kColumnsAfter = 0;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float bias = load<float>(p.bias, channel);
        column[0] = as_column(0.5f * bias);
    }
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {}

    static constexpr int kTensorsBefore = 0, kTensors = 0;
    static UNISONO_DEVICE float before(float acc, const float* column, const float* tensor, const Uniform& u) {
        const float bias = column[0];
        const float v2 = math::fma(acc, 0.5f, bias);
        const float v3 = math::sigmoid_of_half(v2);
        const float v4 = tensor[0];
        const float x = v3 * v4;
        return x;
    }
    static UNISONO_DEVICE float after(float norm, float raw, const float* column, const float* tensor, const Uniform& u) {
        const float v13 = math::silu_of_half(norm);
        return v13;
    }
    static UNISONO_DEVICE float side(float acc, const float* column, const float* tensor, const Uniform& u) {
        const float bias = column[0];
        const float v2 = math::fma(acc, 0.5f, bias);
        const float v3 = math::sigmoid_of_half(v2);
        const float v4 = tensor[0];
        const float x = v3 * v4;
        return x;
    }

    static constexpr bool kRaw = false;
    struct Late {};
    static UNISONO_DEVICE Late late(const Params& p, const Uniform& u, int image, int channel) {
        return {};
    }
    static UNISONO_DEVICE float2 affine(const Late& late, const Uniform& u, float mean, float variance) {
        const float v10 = variance + 1e-05f;
        const float v11 = math::accurate::rsqrt(v10);
        return {0.5f * v11, 0.5f * 0.f};  // of y/2
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
