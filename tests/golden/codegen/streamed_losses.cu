// A convolution and its epilogue in one kernel:
//   h = acc + bias[n]
//   y = (h - mean(h, over=(m,n), per=b, groups=4)) * (rsqrt(variance(h, over=(m,n), per=b, groups=4) + 1e-5) * gamma[n])
//   loss = mean(square(y - target[m,n]), over=all)
//   sums = sum(h, over=m, per=b)
//   store silu(y) * w[m] as y : f32
//   store loss : f32
//   store sums : f32
#include <unisono/sm90/conv_fprop.cuh>
#include <unisono/epilogue/math.cuh>
#include <unisono/epilogue/operands.cuh>

namespace unisono {

struct Config {
    using Element = Bf16;
    static constexpr int kTileM = 128, kTileN = 64, kTileK = 64;
    static constexpr int kTileWarpgroups = 1, kConsumerGroups = 2, kWarpgroupRows = 128;
    static constexpr int kStages = 4, kStagesA = 0, kHaloH = 0, kHaloW = 0, kStoreBuffers = 4;
    static constexpr int kClusterM = 1, kClusterN = 1, kGroup = 0;
    static constexpr bool kTwoDimensional = false, kSplit = false, kSwap = false, kStationary = false;
    static constexpr Norm kNorm = Norm::kStreamed;
    static constexpr int kUnit = 16, kMoments = 0, kFetch = 0;
    static constexpr bool kWide = false, kMeets = false;
    static constexpr Stores kStores = Stores::kTma;
    using Held = float;
    using Operands = Images;
    using Resample = AsItIs;
};

struct Visitor {
    using Output = float;
    using Side = float;
    static constexpr SideStore kSide = SideStore::kNone;
    struct Params {
        const void* bias;  // f32 [n]
        const void* gamma;  // f32 [n]
        const void* w;  // f32 [m]
        const void* target;  // f32 [m,n]
        void* sums_memory;  // f32 [b,n]
        void* loss_memory;  // f32 []
        alignas(8) int channels;
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

    static constexpr int kTensorsBefore = 0, kTensors = 1;
    template <int i>
    static UNISONO_DEVICE auto tensor(const Params& p) {
        return TensorSource<float>{p.target};
    }
    static UNISONO_DEVICE float before(float acc, const float* column, const float* tensor, const Uniform& u) {
        const float bias = column[0];
        const float h = acc + bias;
        return h;
    }
    struct Row {
        float w;
    };
    static UNISONO_DEVICE Row row(const Params& p, const Uniform& u, const Where& at) {
        const float w = load<float>(p.w, at.m);
        return {w};
    }
    static constexpr int kResults = 1, kDirect = 1;
    static UNISONO_DEVICE void results(float norm, const float* column, const float* tensor, const Row& row, const Uniform& u, bool exists, float* result, float* value) {
        const float v12 = math::accurate::silu(norm);
        const float v14 = v12 * row.w;
        result[0] = v14;
        const float target = tensor[0];
        const float v16 = norm - target;
        const float v17 = math::square(v16);
        value[1] = v17;
    }
    template <int i>
    static UNISONO_DEVICE auto direct(const Params& p, void* main) {
        return ResultTarget<float>{main};
    }
    static constexpr int kFoldValues = 2;
    static UNISONO_DEVICE constexpr bool ahead(int i) { return i == 0 ? true : false; }
    static UNISONO_DEVICE void fold_ahead(float acc, const float* column, const float* tensor, const Uniform& u, float* value) {
        const float bias = column[0];
        const float h = acc + bias;
        value[0] = h;
    }
    static constexpr int kChannelFolds = 1, kMoments = 0, kTileFolds = 1;
    static UNISONO_DEVICE constexpr Fold channel_fold(int i) { return Fold::kSum; }
    static UNISONO_DEVICE constexpr Fold tile_fold(int i) { return Fold::kSum; }
    static constexpr int kDomains = 2;
    static UNISONO_DEVICE constexpr FoldDomain domain(int i) { return i == 0 ? FoldDomain{true, 0, 0, 1, 0, 0} : FoldDomain{false, 1, 0, 1, 0, 0}; }
    template <int domain>
    static UNISONO_DEVICE void finish(const Params& p, const Uniform& u, int image, int group, float rows, float columns, const float* folded, const Moments* moments) {
        if constexpr (domain == 0) {
        const float v19 = folded[0];
        store<float>(p.sums_memory, image * p.channels + group, v19);
        }
        if constexpr (domain == 1) {
        const float v18 = folded[0] / (rows * columns);
        store<float>(p.loss_memory, 0, v18);
        }
    }
    static UNISONO_DEVICE float side(float, const float*, const float*, const Uniform&) {
        return 0.f;
    }

    static constexpr bool kRaw = false;
    struct Late {
        float gamma;
    };
    static UNISONO_DEVICE Late late(const Params& p, const Uniform& u, int image, int channel) {
        const float gamma = load<float>(p.gamma, channel);
        return {gamma};
    }
    static UNISONO_DEVICE float2 affine(const Late& late, const Uniform& u, float mean, float variance) {
        const float v7 = variance + 1e-05f;
        const float v8 = math::accurate::rsqrt(v7);
        const float v10 = v8 * late.gamma;
        return {v10, 0.f};
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
