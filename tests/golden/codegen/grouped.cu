// A convolution and its epilogue in one kernel:
//   h = acc + bias[n]
//   top = max(h, over=n, groups=4)
//   t0 = exp(h - top)
//   y = t0 * reciprocal(sum(t0, over=n, groups=4))
//   store y : bf16
//   store top : f32
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
        const void* bias;  // f32 [n]
        void* top_memory;  // f32 [m,g4]
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 0, kColumnsAfter = 1;
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float bias = load<float>(p.bias, channel);
        column[0] = as_column(bias);
    }

    static constexpr int kTensorsBefore = 0, kTensors = 0;

    struct Row {
        float v3;
        float v6;
    };
    static UNISONO_DEVICE Row row(const Params& p, const Uniform& u, const Where& at) {
        Row row;
        return row;
    }
    static constexpr int kLevels = 2;
    static UNISONO_DEVICE constexpr int row_folds(int level) { return level == 0 ? 0 : 0; }
    static UNISONO_DEVICE constexpr Fold row_fold(int level, int i) { return level == 0 ? (Fold::kSum) : (Fold::kSum); }
    template <int level>
    static UNISONO_DEVICE void contribute(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, int channel, float* value) {
        if constexpr (level == 0) {
        const float bias = column[0];
        const float h = acc + bias;
        value[0] = h;
        }
        if constexpr (level == 1) {
        const float bias = column[0];
        const float h = acc + bias;
        const float v4 = h - row.v3;
        const float v5 = math::exp(v4);
        value[0] = v5;
        }
    }
    template <int level>
    static UNISONO_DEVICE void conclude(const Uniform& u, float channels, const float* folded, Row& row) {}

    static constexpr bool kElements = true;
    struct Result {
        float r0;
    };
    static UNISONO_DEVICE Result element(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, const Where& at, int channel, bool exists, float* value) {
        Result result;
        const float bias = column[0];
        const float h = acc + bias;
        const float v4 = h - row.v3;
        const float v5 = math::exp(v4);
        const float v7 = math::reciprocal(row.v6);
        const float v8 = v5 * v7;
        result.r0 = v8;
        return result;
    }
    static UNISONO_DEVICE float tiled(const Result& x, int i) {
        return x.r0;
    }
    static UNISONO_DEVICE void put(const Params& p, u64 offset, const Result& x, const Result& y) {}
    static UNISONO_DEVICE void put(const Params& p, u64 offset, const Result& x) {}
    static constexpr bool kRowEnds = false;
    static UNISONO_DEVICE void close_row(const Params& p, const Uniform& u, const Where& at, const Row& row, float* value) {}
    static constexpr bool kGroups = true;
    static constexpr int kGroupStores = 1;
    static UNISONO_DEVICE constexpr int group_folds(int level) { return level == 0 ? 1 : 1; }
    static UNISONO_DEVICE constexpr Fold group_fold(int level, int i) { return level == 0 ? (Fold::kMax) : (Fold::kSum); }
    static UNISONO_DEVICE constexpr bool group_mean(int level, int i) { return level == 0 ? (false) : (false); }
    static UNISONO_DEVICE constexpr int group_width(int level, int i) { return level == 0 ? (16) : (16); }
    template <class Groups>
    static UNISONO_DEVICE void read_groups(Row& row, const float* line, int n) {
        row.v3 = line[Groups::first(0, 0) + n / 16];
        row.v6 = line[Groups::first(1, 0) + n / 16];
    }
    static UNISONO_DEVICE constexpr int group_store_width(int i) { return 16; }
    template <int i>
    static UNISONO_DEVICE void close_group(const Params& p, const Uniform& u, const Where& at, const Row& row, int columns, int group) {
        if constexpr (i == 0) {
        store<float>(p.top_memory, at.m * columns + group, row.v3);
        }
    }

    static constexpr int kChannelFolds = 0, kMoments = 0, kTileFolds = 0;
    static UNISONO_DEVICE constexpr Fold channel_fold(int i) { return Fold::kSum; }
    static UNISONO_DEVICE constexpr Fold tile_fold(int i) { return Fold::kSum; }
    static constexpr int kDomains = 0;
    static UNISONO_DEVICE constexpr FoldDomain domain(int i) { return FoldDomain{}; }
    template <int domain>
    static UNISONO_DEVICE void finish(const Params& p, const Uniform& u, int image, int group, float rows, float columns, const float* folded, const Moments* moments) {}
    static constexpr bool kReturns = false;
};

using Conv = ConvFprop<Config, Visitor>;

}  // namespace unisono

extern "C" __global__ void __launch_bounds__(unisono::Conv::kThreads, 1)
unisono_kernel(const __grid_constant__ unisono::Conv::Params params) {
    unisono::Conv::run(params);
}
