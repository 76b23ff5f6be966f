// A convolution and its epilogue in one kernel:
//   operand x[m,n] : f16
//   operand temb[b,n] : f16
//   h = acc + (bias[n] + temb[b,n])
//   y = fma(x[m,n], 0.5, leaky_relu(h, slope=0.2))
//   store y : f16
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
    using Output = F16;
    using Side = F16;
    static constexpr SideStore kSide = SideStore::kNone;
    struct Params {
        const void* x;  // f16 [m,n]
        const void* bias;  // f32 [n]
        const void* temb;  // f16 [b,n]
        alignas(8) int channels;
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 0, kColumnsAfter = 1;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform& u, int image, int channel, float* column) {}
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float bias = load<float>(p.bias, channel);
        const float temb = load<F16>(p.temb, image * p.channels + channel);
        const float v5 = bias + temb;
        column[0] = as_column(v5);
    }

    static constexpr int kTensorsBefore = 0, kTensors = 1;
    template <int i>
    static UNISONO_DEVICE auto tensor(const Params& p) {
        return TensorSource<F16>{p.x};
    }
    static UNISONO_DEVICE float before(float acc, const float*, const float*, const Uniform&) {
        return acc;
    }
    static UNISONO_DEVICE float after(float acc, float, const float* column, const float* tensor, const Uniform& u) {
        const float x = tensor[0];
        const float v5 = column[0];
        const float h = acc + v5;
        const float v7 = math::leaky_relu_below_1(h, 0.2f);
        const float v8 = math::fma(x, 0.5f, v7);
        return v8;
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
