// A convolution and its epilogue in one kernel:
//   t0 = acc * s[m]
//   y = (t0 - mean(t0, over=(m,n), per=b, groups=4)) * (rsqrt(variance(t0, over=(m,n), per=b, groups=4) + 1e-5) * gamma[n])
//   t1 = exp(y - max(y, over=n))
//   sums = sum(y, over=m, per=b)
//   store fma(t1, reciprocal(sum(t1, over=n)), index(h) * 0.01) as y : f32
//   store sums : f32
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
    static constexpr Norm kNorm = Norm::kGeneral;
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
    static constexpr int kTiled = 0;
    static constexpr bool kRaw = false;
    struct Late {};
    struct Params {
        const void* s;  // f32 [m]
        const void* gamma;  // f32 [n]
        void* y_memory;  // f32 [m,n]
        void* sums_memory;  // f32 [b,n]
        alignas(8) int channels;
        alignas(8) int extent_of_h;
        alignas(8) int extent_of_w;
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 0, kColumnsAfter = 3;
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {
        column[0] = 0.f;
        column[1] = 0.f;
        column[2] = 0.f;
    }

    static constexpr int kTensorsBefore = 0, kTensors = 0;

    struct Row {
        float s;
        float v12;
        float v15;
        float v16;
        int v17;
        float v19;
    };
    static UNISONO_DEVICE Row row(const Params& p, const Uniform& u, const Where& at) {
        Row row;
        const float s = load<float>(p.s, at.m);
        row.s = s;
        const int v17 = at.m / p.extent_of_w % p.extent_of_h;
        row.v17 = v17;
        const float v19 = float(v17) * 0.01f;
        row.v19 = v19;
        return row;
    }
    static constexpr int kLevels = 3;
    static UNISONO_DEVICE constexpr int row_folds(int level) { return level == 0 ? 0 : level == 1 ? 1 : 1; }
    static UNISONO_DEVICE constexpr Fold row_fold(int level, int i) { return level == 0 ? (Fold::kSum) : level == 1 ? (Fold::kMax) : (Fold::kSum); }
    template <int level>
    static UNISONO_DEVICE void contribute(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, int channel, float* value) {
        if constexpr (level == 1) {
        const float v2 = acc * row.s;
        const float v3 = column[0];
        const float v4 = v2 - v3;
        const float v10 = column[2];
        const float y = v4 * v10;
        value[0] = y;
        }
        if constexpr (level == 2) {
        const float v2 = acc * row.s;
        const float v3 = column[0];
        const float v4 = v2 - v3;
        const float v10 = column[2];
        const float y = v4 * v10;
        const float v13 = y - row.v12;
        const float v14 = math::accurate::exp(v13);
        value[0] = v14;
        }
    }
    template <int level>
    static UNISONO_DEVICE void conclude(const Uniform& u, float channels, const float* folded, const float* column, Row& row) {
        if constexpr (level == 1) {
        const float v12 = folded[0];
        row.v12 = v12;
        }
        if constexpr (level == 2) {
        const float v15 = folded[0];
        row.v15 = v15;
        const float v16 = math::accurate::reciprocal(v15);
        row.v16 = v16;
        }
    }

    static constexpr bool kElements = true;
    struct Result {
        float r0;
    };
    static UNISONO_DEVICE Result element(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, const Where& at, int channel, bool exists, float* value) {
        Result result;
        const float v2 = acc * row.s;
        const float v3 = column[0];
        const float v4 = v2 - v3;
        const float v10 = column[2];
        const float y = v4 * v10;
        const float v13 = y - row.v12;
        const float v14 = math::accurate::exp(v13);
        const float v20 = math::fma(v14, row.v16, row.v19);
        result.r0 = v20;
        value[0] = y;
        return result;
    }
    static UNISONO_DEVICE float tiled(const Result& x, int i) {
        return 0.f;
    }
    static UNISONO_DEVICE void put(const Params& p, u64 offset, const Result& x, const Result& y) {
        store_pair<float>(p.y_memory, offset, x.r0, y.r0);
    }
    static UNISONO_DEVICE void put(const Params& p, u64 offset, const Result& x) {
        store_element<float>(p.y_memory, offset, x.r0);
    }
    static constexpr bool kRowEnds = false;
    static UNISONO_DEVICE void close_row(const Params& p, const Uniform& u, const Where& at, const Row& row, float* value) {}
    static constexpr bool kGroups = false;

    static constexpr int kChannelFolds = 1, kMoments = 0, kTileFolds = 0;
    static UNISONO_DEVICE constexpr Fold channel_fold(int i) { return Fold::kSum; }
    static UNISONO_DEVICE constexpr Fold tile_fold(int i) { return Fold::kSum; }
    static constexpr int kDomains = 1;
    static UNISONO_DEVICE constexpr FoldDomain domain(int i) { return FoldDomain{true, 0, 0, 1, 0, 0}; }
    template <int domain>
    static UNISONO_DEVICE void finish(const Params& p, const Uniform& u, int image, int group, float rows, float columns, const float* folded, const Moments* moments) {
        if constexpr (domain == 0) {
        const float v21 = folded[0];
        store<float>(p.sums_memory, image * p.channels + group, v21);
        }
    }
    static constexpr bool kReturns = true;
    struct Returned0 {
        static constexpr int kChannelFolds = 0, kMoments = 1, kDomains = 1;
        static UNISONO_DEVICE constexpr Fold channel_fold(int i) { return Fold::kSum; }
        static UNISONO_DEVICE constexpr FoldDomain domain(int i) { return FoldDomain{true, 4, 0, 0, 0, 1}; }
        static UNISONO_DEVICE constexpr int values(int i) { return 2; }
        template <int domain>
        static UNISONO_DEVICE void conclude(float rows, float columns, const float* folded, const Moments* moments, float* value) {
            if constexpr (domain == 0) {
                value[0] = moments[0].mean;
                value[1] = moments[0].m2 / moments[0].count;
            }
        }
        static UNISONO_DEVICE void share(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, int channel, float* value) {
            const float v2 = acc * row.s;
            value[0] = v2;
        }
        static UNISONO_DEVICE void columns(const Params& p, const Uniform& u, int image, int channel, const float* value, float* column) {
            const float v3 = value[0];
            column[0] = as_column(v3);
            const float v5 = value[1];
            column[1] = as_column(v5);
            const float v7 = v5 + 1e-05f;
            const float v8 = math::accurate::rsqrt(v7);
            const float gamma = load<float>(p.gamma, channel);
            const float v10 = v8 * gamma;
            column[2] = as_column(v10);
        }
    };
    struct Returned1 {
        static constexpr int kChannelFolds = 0, kMoments = 0, kDomains = 0;
        static UNISONO_DEVICE constexpr Fold channel_fold(int i) { return Fold::kSum; }
        static UNISONO_DEVICE constexpr FoldDomain domain(int i) { return FoldDomain{}; }
        static UNISONO_DEVICE constexpr int values(int i) { return 0; }
        template <int domain>
        static UNISONO_DEVICE void conclude(float rows, float columns, const float* folded, const Moments* moments, float* value) {}
        static UNISONO_DEVICE void share(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, int channel, float* value) {}
        static UNISONO_DEVICE void columns(const Params& p, const Uniform& u, int image, int channel, const float* value, float* column) {}
    };
    struct Returned2 {
        static constexpr int kChannelFolds = 0, kMoments = 0, kDomains = 0;
        static UNISONO_DEVICE constexpr Fold channel_fold(int i) { return Fold::kSum; }
        static UNISONO_DEVICE constexpr FoldDomain domain(int i) { return FoldDomain{}; }
        static UNISONO_DEVICE constexpr int values(int i) { return 0; }
        template <int domain>
        static UNISONO_DEVICE void conclude(float rows, float columns, const float* folded, const Moments* moments, float* value) {}
        static UNISONO_DEVICE void share(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, int channel, float* value) {}
        static UNISONO_DEVICE void columns(const Params& p, const Uniform& u, int image, int channel, const float* value, float* column) {}
    };
    template <int level> using Returned = typename Nth<level, Returned0, Returned1, Returned2>::Type;
};

using Conv = ConvFprop<Config, Visitor>;

}  // namespace unisono

extern "C" __global__ void __launch_bounds__(unisono::Conv::kThreads, 1)
unisono_kernel(const __grid_constant__ unisono::Conv::Params params) {
    unisono::Conv::run(params);
}
