// A convolution and its epilogue in one kernel:
//   operand d[m,n] : f32 strided
//   operand c[h,n] : bf16
//   operand bias[n] = 0.25
//   y = round_toward_zero_bf16(d[m,n] + silu(c[h,n] + acc + bias[n]))
//   raw = acc * pos[h,w]
//   store y : bf16 strided
//   store raw : f16
#include <unisono/sm90/conv_fprop.cuh>
#include <unisono/epilogue/math.cuh>
#include <unisono/epilogue/operands.cuh>
#include <unisono/epilogue/placed.cuh>

UNISONO_DEVICE float round_toward_zero_bf16(float x) {
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7f800000u) == 0x7f800000u) return x;
    const unsigned up = 0u;
    return __uint_as_float((bits + (up >> 16)) & 0xffff0000u);
}

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
    using Output = F16;
    using Side = F16;
    static constexpr SideStore kSide = SideStore::kNone;
    static constexpr int kTiled = 1;
    static constexpr bool kRaw = false;
    struct Late {};
    struct Params {
        const void* d;  // f32 [m,n]
        const void* c;  // bf16 [h,n]
        const void* bias;  // f32 [n]
        const void* pos;  // f32 [h,w]
        void* y_memory;  // bf16 [m,n]
        alignas(8) int extent_of_h;
        alignas(8) int extent_of_w;
        i64 d_image_step;
        i64 d_row_step;
        i64 d_pixel_step;
        i64 d_column_step;
        alignas(8) int d_vectors;
        i64 c_image_step;
        i64 c_row_step;
        i64 c_pixel_step;
        i64 c_column_step;
        alignas(8) int c_vectors;
        i64 pos_image_step;
        i64 pos_row_step;
        i64 pos_pixel_step;
        i64 y_memory_image_step;
        i64 y_memory_row_step;
        i64 y_memory_pixel_step;
        i64 y_memory_column_step;
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 0, kColumnsAfter = 1;
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float bias = (p.bias == nullptr ? 0.25f : load<float>(p.bias, channel));
        column[0] = as_column(bias);
    }

    static constexpr int kTensorsBefore = 0, kTensors = 2;
    template <int i>
    static UNISONO_DEVICE auto tensor(const Params& p) {
        if constexpr (i == 0) return PlacedSource<float>{{p.d}, Place{p.extent_of_h, p.extent_of_w, p.d_image_step, p.d_row_step, p.d_pixel_step, p.d_column_step}, p.d_vectors != 0};
        else return PlacedSource<Bf16>{{p.c}, Place{p.extent_of_h, p.extent_of_w, p.c_image_step, p.c_row_step, p.c_pixel_step, p.c_column_step}, p.c_vectors != 0};
    }

    struct Row {
        float pos;
    };
    static UNISONO_DEVICE Row row(const Params& p, const Uniform& u, const Where& at) {
        Row row;
        const float pos = load<float>(p.pos, int(Place{p.extent_of_h, p.extent_of_w, p.pos_image_step, p.pos_row_step, p.pos_pixel_step, 0}.offset(at.m, 0)));
        row.pos = pos;
        return row;
    }
    static constexpr int kLevels = 0;
    static UNISONO_DEVICE constexpr int row_folds(int level) { return 1; }
    static UNISONO_DEVICE constexpr Fold row_fold(int level, int i) { return Fold::kSum; }
    template <int level>
    static UNISONO_DEVICE void contribute(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, int channel, float* value) {}
    template <int level>
    static UNISONO_DEVICE void conclude(const Uniform& u, float channels, const float* folded, Row& row) {}

    static constexpr bool kElements = true;
    struct Result {
        int m, channel;
        float r0;
        float r1;
    };
    static UNISONO_DEVICE Result element(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, const Where& at, int channel, bool exists, float* value) {
        Result result;
        result.m = at.m, result.channel = channel;
        const float v10 = acc * row.pos;
        result.r0 = v10;
        const float d = tensor[0];
        const float c = tensor[1];
        const float v3 = c + acc;
        const float bias = column[0];
        const float v5 = v3 + bias;
        const float v6 = math::silu(v5);
        const float v7 = d + v6;
        const float v8 = ::round_toward_zero_bf16(v7);
        result.r1 = v8;
        return result;
    }
    static UNISONO_DEVICE float tiled(const Result& x, int i) {
        return x.r0;
    }
    static UNISONO_DEVICE void put(const Params& p, u64 offset, const Result& x, const Result& y) {
        {
            const Place place = Place{p.extent_of_h, p.extent_of_w, p.y_memory_image_step, p.y_memory_row_step, p.y_memory_pixel_step, p.y_memory_column_step};
            const u64 to = place.offset(x.m, x.channel);
            store_element<Bf16>(p.y_memory, to, x.r1);
            store_element<Bf16>(p.y_memory, to + place.column, y.r1);
        }
    }
    static UNISONO_DEVICE void put(const Params& p, u64 offset, const Result& x) {
        {
            const Place place = Place{p.extent_of_h, p.extent_of_w, p.y_memory_image_step, p.y_memory_row_step, p.y_memory_pixel_step, p.y_memory_column_step};
            const u64 to = place.offset(x.m, x.channel);
            store_element<Bf16>(p.y_memory, to, x.r1);
        }
    }
    static constexpr bool kRowEnds = false;
    static UNISONO_DEVICE void close_row(const Params& p, const Uniform& u, const Where& at, const Row& row, float* value) {}
    static constexpr bool kGroups = false;

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
