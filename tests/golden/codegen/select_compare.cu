// A convolution and its epilogue in one kernel:
//   operand mask[n] : bool
//   inside = !(upper[] <= acc) & lower[] < acc | mask[n]
//   y = select(inside, max(acc, 0.1), min(acc, -inf))
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
        alignas(8) float upper;
        alignas(8) float lower;
        const void* mask;  // bool [n]
    };
    struct Uniform {
        float upper;
        float lower;
    };
    static UNISONO_DEVICE Uniform uniform(const Params& p) {
        return {p.upper, p.lower};
    }

    static constexpr int kColumnsBefore = 0, kColumnsAfter = 1;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform& u, int image, int channel, float* column) {}
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const bool mask = load<bool>(p.mask, channel);
        column[0] = as_column(mask);
    }

    static constexpr int kTensorsBefore = 0, kTensors = 0;
    static UNISONO_DEVICE float before(float acc, const float*, const float*, const Uniform&) {
        return acc;
    }
    static UNISONO_DEVICE float after(float acc, float, const float* column, const float* tensor, const Uniform& u) {
        const bool v2 = u.upper <= acc;
        const bool v3 = !v2;
        const bool v5 = u.lower < acc;
        const bool v6 = v3 && v5;
        const bool mask = (column[0] != 0.f);
        const bool inside = v6 || mask;
        const float v10 = math::max(acc, 0.1f);
        const float v12 = math::min(acc, -__int_as_float(0x7f800000));
        const float v13 = inside ? v10 : v12;
        return v13;
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
