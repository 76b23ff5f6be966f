// Along lines of tensors.
#include <unisono/tensor/lines.cuh>

extern "C" __global__ void __launch_bounds__(256)
unisono_top(const __grid_constant__ unisono::TopParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    top<Bf16>(p);
}
