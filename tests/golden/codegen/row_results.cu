// A convolution and its epilogue in one kernel:
//   h = acc * w[m]
//   t0 = exp(h - max(h, over=n))
//   y = t0 * reciprocal(sum(t0, over=n))
//   z = y * gamma[n]
//   store h : bf16
//   store y : f32
//   store z : bf16
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
    using Output = float;
    using Side = Bf16;
    static constexpr SideStore kSide = SideStore::kBefore;
    struct Params {
        const void* w;  // f32 [m]
        const void* gamma;  // f32 [n]
        void* z_memory;  // bf16 [m,n]
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 0, kColumnsAfter = 1;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform& u, int image, int channel, float* column) {}
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float gamma = load<float>(p.gamma, channel);
        column[0] = as_column(gamma);
    }

    static constexpr int kTensorsBefore = 0, kTensors = 0;
    struct Row {
        float w;
    };
    static UNISONO_DEVICE Row row(const Params& p, const Uniform& u, const Where& at) {
        const float w = load<float>(p.w, at.m);
        return {w};
    }
    static constexpr bool kRowsBefore = true;
    static UNISONO_DEVICE float before(float acc, const float* column, const float* tensor, const Row& row, const Uniform& u) {
        const float h = acc * row.w;
        return h;
    }
    static constexpr int kResults = 2, kDirect = 2;
    static UNISONO_DEVICE void results(float norm, const float* column, const float* tensor, const Row& row, const Uniform& u, bool exists, float* result) {
        result[0] = norm;
        const float gamma = column[0];
        const float v10 = norm * gamma;
        result[1] = v10;
    }
    template <int i>
    static UNISONO_DEVICE auto direct(const Params& p, void* main) {
        if constexpr (i == 0) return ResultTarget<float>{main};
        else return ResultTarget<Bf16>{p.z_memory};
    }
    static UNISONO_DEVICE float side(float acc, const float* column, const float* tensor, const Row& row, const Uniform& u) {
        const float h = acc * row.w;
        return h;
    }

    static constexpr bool kRaw = false;
    static constexpr RowStatistic kRowStatistic = RowStatistic::kSoftmax;
    static UNISONO_DEVICE float exponential(float x) {
        return math::accurate::exp(x);
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
