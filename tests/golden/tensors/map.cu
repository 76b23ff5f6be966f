// An elementwise computation on tensors.
#include <unisono/tensor/map.cuh>

namespace unisono::tensor {

struct Program {
    static constexpr int kTensors = 5, kElements = 4;
    static UNISONO_DEVICE void run(const MapParams<5>& p, const i64 (&offsets)[5], int here) {
        const FaultReport& faults = p.head.faults;
        const auto x0 = load_chunk<4, Bf16>(p.tensors[0], offsets[0], here);
        const auto x1 = load_chunk<4, float>(p.tensors[1], offsets[1], here);
        const auto x2 = load_chunk<4, i64>(p.tensors[2], offsets[2], here);
        Chunk<4, Bf16> y0;
        Chunk<4, bool> y1;
#pragma unroll
        for (int k = 0; k < kElements; ++k) {
            if (k >= here) continue;
            const bool v3 = x0.of[k] < x1.of[k];
            const i64 v4 = modulo(x2.of[k], x2.of[k], faults);
            const float v5 = converted<float>(v4);
            const float v6 = math::accurate::gelu(x0.of[k]);
            const float v7 = v3 ? v6 : v5;
            y0.of[k] = v7;
            y1.of[k] = v3;
        }
        store_chunk<4, Bf16>(p.tensors[3], offsets[3], here, y0);
        store_chunk<4, bool>(p.tensors[4], offsets[4], here, y1);
    }
};

}  // namespace unisono::tensor

extern "C" __global__ void __launch_bounds__(256)
unisono_map(const __grid_constant__ unisono::MapParams<5> p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    map<Program>(p);
}
