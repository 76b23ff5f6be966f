// A convolution and its epilogue in one kernel:
//   t0 = acc + bias[n]
//   t1 = (t0 - mean(t0, over=(m,n), per=b, groups=4)) * (rsqrt(variance(t0, over=(m,n), per=b, groups=4) + 1e-5) * gamma[n])
//   y = r[m,n] + silu(t1)
//   store y : bf16
#include <unisono/plain/conv.cuh>
#include <unisono/epilogue/math.cuh>
#include <unisono/epilogue/operands.cuh>

namespace unisono {

struct Config {
    using Image = Bf16;
    using Filter = Tf32;
    static constexpr int kTileM = 64, kTileN = 64, kTileK = 16, kEachM = 4, kEachN = 4, kThreads = 256, kBlocks = 1;
    static constexpr bool kDirect = false, kTransposed = false, kRowsFirst = false, kColumnsFirst = false, kPlanes = false;
    static constexpr bool kGeneral = false, kNormalises = true, kPerPixel = false;
};

struct Visitor {
    using Output = Bf16;
    using Side = Bf16;
    static constexpr SideStore kSide = SideStore::kNone;
    struct Params {
        const void* r;  // f32 [m,n]
        const void* bias;  // f32 [n]
        const void* gamma;  // f32 [n]
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
        return TensorSource<float>{p.r};
    }
    static UNISONO_DEVICE float before(float acc, const float* column, const float* tensor, const Uniform& u) {
        const float bias = column[0];
        const float v3 = acc + bias;
        return v3;
    }
    static UNISONO_DEVICE float after(float norm, float raw, const float* column, const float* tensor, const Uniform& u) {
        const float r = tensor[0];
        const float v13 = math::silu_of_half(norm);
        const float v14 = r + v13;
        return v14;
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
        const float v8 = variance + 1e-05f;
        const float v9 = math::accurate::rsqrt(v8);
        const float v11 = v9 * late.gamma;
        return {0.5f * v11, 0.5f * 0.f};  // of y/2
    }
    static constexpr bool kStatistics = false;
    static UNISONO_DEVICE void statistics(const Params& p, const Uniform& u, int image, int group, float mean, float variance) {}
};

using Conv = PlainConv<Config, Visitor>;

}  // namespace unisono

extern "C" __global__ void __launch_bounds__(unisono::Conv::kThreads, unisono::Conv::kBlocks)
unisono_kernel(const __grid_constant__ unisono::Conv::Params params) {
    unisono::Conv::run(params);
}
