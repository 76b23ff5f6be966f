// A convolution and its epilogue in one kernel:
//   operand label[m] : i32
//   inside = index(h) > 0 & index(w) < extent(w) + -1
//   h = select(inside, fma(acc, s[m], t[b]), one_hot(label[m]))
//   positive = h > 0
//   of_row = sum(h, over=n) * w[m]
//   mu = mean(h, over=m, per=b)
//   deviation = sqrt(variance(h, over=all, groups=4))
//   store h as y : bf16
//   store positive : bool
//   store of_row : f32
//   store mu : f32
//   store deviation : f32
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
    static constexpr int kTiled = 1;
    static constexpr bool kRaw = false;
    struct Late {};
    struct Params {
        const void* s;  // f32 [m]
        const void* t;  // f32 [b]
        const void* label;  // i32 [m]
        const void* w;  // f32 [m]
        void* positive_memory;  // bool [m,n]
        void* deviation_memory;  // f32 [g4]
        void* mu_memory;  // f32 [b,n]
        void* of_row_memory;  // f32 [m]
        alignas(8) int channels;
        alignas(8) int extent_of_h;
        alignas(8) int extent_of_w;
    };
    struct Uniform {
        int v6;
    };
    static UNISONO_DEVICE Uniform uniform(const Params& p) {
        const int v6 = math::add(p.extent_of_w, -1);
        return {v6};
    }

    static constexpr int kColumnsBefore = 0, kColumnsAfter = 1;
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float t = load<float>(p.t, image);
        column[0] = as_column(t);
    }

    static constexpr int kTensorsBefore = 0, kTensors = 0;

    struct Row {
        int v0;
        bool v2;
        int v3;
        bool v7;
        bool inside;
        float s;
        int label;
        float v17;
        float w;
        float v19;
    };
    static UNISONO_DEVICE Row row(const Params& p, const Uniform& u, const Where& at) {
        Row row;
        const int v0 = at.m / p.extent_of_w % p.extent_of_h;
        row.v0 = v0;
        const bool v2 = v0 > 0;
        row.v2 = v2;
        const int v3 = at.m % p.extent_of_w;
        row.v3 = v3;
        const bool v7 = v3 < u.v6;
        row.v7 = v7;
        const bool inside = v2 && v7;
        row.inside = inside;
        const float s = load<float>(p.s, at.m);
        row.s = s;
        const int label = load<int>(p.label, at.m);
        row.label = label;
        const float w = load<float>(p.w, at.m);
        row.w = w;
        return row;
    }
    static constexpr int kLevels = 1;
    static UNISONO_DEVICE constexpr int row_folds(int level) { return 1; }
    static UNISONO_DEVICE constexpr Fold row_fold(int level, int i) { return (Fold::kSum); }
    template <int level>
    static UNISONO_DEVICE void contribute(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, int channel, float* value) {
        if constexpr (level == 0) {
        const float t = column[0];
        const float v12 = math::fma(acc, row.s, t);
        const float v14 = row.label == channel ? 1.f : 0.f;
        const float h = row.inside ? v12 : v14;
        value[0] = h;
        }
    }
    template <int level>
    static UNISONO_DEVICE void conclude(const Uniform& u, float channels, const float* folded, Row& row) {
        if constexpr (level == 0) {
        const float v17 = folded[0];
        row.v17 = v17;
        const float v19 = v17 * row.w;
        row.v19 = v19;
        }
    }

    static constexpr bool kElements = true;
    struct Result {
        float r0;
        bool r1;
    };
    static UNISONO_DEVICE Result element(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, const Where& at, int channel, bool exists, float* value) {
        Result result;
        const float t = column[0];
        const float v12 = math::fma(acc, row.s, t);
        const float v14 = row.label == channel ? 1.f : 0.f;
        const float h = row.inside ? v12 : v14;
        result.r0 = h;
        const bool v16 = h > 0.f;
        result.r1 = v16;
        value[0] = h;
        value[1] = h;
        return result;
    }
    static UNISONO_DEVICE float tiled(const Result& x, int i) {
        return x.r0;
    }
    static UNISONO_DEVICE void put(const Params& p, u64 offset, const Result& x, const Result& y) {
        store_pair_of_bools(p.positive_memory, offset, x.r1, y.r1);
    }
    static UNISONO_DEVICE void put(const Params& p, u64 offset, const Result& x) {
        store_bool(p.positive_memory, offset, x.r1);
    }
    static constexpr bool kRowEnds = true;
    static UNISONO_DEVICE void close_row(const Params& p, const Uniform& u, const Where& at, const Row& row, float* value) {
        store<float>(p.of_row_memory, at.m, row.v19);
    }
    static constexpr bool kGroups = false;

    static constexpr int kChannelFolds = 1, kMoments = 1, kTileFolds = 0;
    static UNISONO_DEVICE constexpr Fold channel_fold(int i) { return Fold::kSum; }
    static UNISONO_DEVICE constexpr Fold tile_fold(int i) { return Fold::kSum; }
    static constexpr int kDomains = 2;
    static UNISONO_DEVICE constexpr FoldDomain domain(int i) { return i == 0 ? FoldDomain{false, 4, 0, 0, 0, 1} : FoldDomain{true, 0, 0, 1, 1, 0}; }
    template <int domain>
    static UNISONO_DEVICE void finish(const Params& p, const Uniform& u, int image, int group, float rows, float columns, const float* folded, const Moments* moments) {
        if constexpr (domain == 0) {
        const float v21 = moments[0].m2 / moments[0].count;
        const float v22 = math::accurate::sqrt(v21);
        store<float>(p.deviation_memory, group, v22);
        }
        if constexpr (domain == 1) {
        const float v20 = folded[0] / rows;
        store<float>(p.mu_memory, image * p.channels + group, v20);
        }
    }
    static constexpr bool kReturns = false;
};

using Conv = ConvFprop<Config, Visitor>;

}  // namespace unisono

extern "C" __global__ void __launch_bounds__(unisono::Conv::kThreads, 1)
unisono_kernel(const __grid_constant__ unisono::Conv::Params params) {
    unisono::Conv::run(params);
}
