// A convolution and its epilogue in one kernel:
//   h = acc + bias[n]
//   mean_out = mean(h, over=(m,n), per=b, groups=4)
//   rstd_out = rsqrt(variance(h, over=(m,n), per=b, groups=4) + 1e-5)
//   y = silu((h - mean_out) * rstd_out)
//   store y : bf16
//   store mean_out : f32
//   store rstd_out : bf16
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
    static constexpr int kUnit = 16, kMoments = 0, kFetch = 0;
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
        void* mean_out_memory;  // f32 [b,g4]
        void* rstd_out_memory;  // bf16 [b,g4]
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
        const float h = acc + bias;
        return h;
    }
    static UNISONO_DEVICE float after(float norm, float raw, const float* column, const float* tensor, const Uniform& u) {
        const float v10 = math::silu_of_half(norm);
        return v10;
    }
    static UNISONO_DEVICE float side(float, const float*, const float*, const Uniform&) {
        return 0.f;
    }

    static constexpr bool kRaw = false;
    struct Late {};
    static UNISONO_DEVICE Late late(const Params& p, const Uniform& u, int image, int channel) {
        return {};
    }
    static UNISONO_DEVICE float2 affine(const Late& late, const Uniform& u, float mean, float variance) {
        const float v7 = variance + 1e-05f;
        const float v8 = math::accurate::rsqrt(v7);
        return {0.5f * v8, 0.5f * 0.f};  // of y/2
    }
    static constexpr bool kStatistics = true;
    static UNISONO_DEVICE void statistics(const Params& p, const Uniform& u, int image, int group, float mean, float variance) {
        store<float>(p.mean_out_memory, image * 4 + group, mean);
        const float v7 = variance + 1e-05f;
        const float v8 = math::accurate::rsqrt(v7);
        store<Bf16>(p.rstd_out_memory, image * 4 + group, v8);
    }
};

using Conv = ConvFprop<Config, Visitor>;

}  // namespace unisono

extern "C" __global__ void __launch_bounds__(unisono::Conv::kThreads, 1)
unisono_kernel(const __grid_constant__ unisono::Conv::Params params) {
    unisono::Conv::run(params);
}
