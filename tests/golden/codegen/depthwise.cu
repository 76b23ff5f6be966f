// A convolution and its epilogue in one kernel:
//   operand r[m,n] : bf16
//   y = r[m,n] + hardswish(acc + bias[n])
//   store y : bf16
#include <unisono/sm90/depthwise.cuh>
#include <unisono/epilogue/math.cuh>
#include <unisono/epilogue/operands.cuh>

namespace unisono {

struct Config {
    using Element = Bf16;
    static constexpr int kWide = 4, kVector = 4, kTileN = 64, kThreads = 128, kBlocks = 3;
    static constexpr int kTapsH = 3, kTapsW = 3, kStrideH = 1, kStrideW = 1, kMultiplier = 1;
    static constexpr bool kGeneral = false;
};

struct Visitor {
    using Output = Bf16;
    using Side = Bf16;
    static constexpr SideStore kSide = SideStore::kNone;
    struct Params {
        const void* r;  // bf16 [m,n]
        const void* bias;  // f32 [n]
    };
    struct Uniform {};
    static UNISONO_DEVICE Uniform uniform(const Params&) {
        return {};
    }

    static constexpr int kColumnsBefore = 0, kColumnsAfter = 1;
    static UNISONO_DEVICE void columns_before(const Params& p, const Uniform& u, int image, int channel, float* column) {}
    static UNISONO_DEVICE void columns_after(const Params& p, const Uniform& u, int image, int channel, float* column) {
        const float bias = load<float>(p.bias, channel);
        column[0] = as_column(bias);
    }

    static constexpr int kTensorsBefore = 0, kTensors = 1;
    template <int i>
    static UNISONO_DEVICE auto tensor(const Params& p) {
        return TensorSource<Bf16>{p.r};
    }
    static UNISONO_DEVICE float before(float acc, const float*, const float*, const Uniform&) {
        return acc;
    }
    static UNISONO_DEVICE float after(float acc, float, const float* column, const float* tensor, const Uniform& u) {
        const float r = tensor[0];
        const float bias = column[0];
        const float v3 = acc + bias;
        const float v4 = math::hardswish(v3);
        const float v5 = r + v4;
        return v5;
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

using Conv = Depthwise<Config, Visitor>;

}  // namespace unisono

extern "C" __global__ void __launch_bounds__(unisono::Conv::kThreads, unisono::Conv::kBlocks)
unisono_kernel(const __grid_constant__ unisono::Conv::Params params) {
    unisono::Conv::run(params);
}
