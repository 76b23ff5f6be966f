// Along lines of tensors.
#include <unisono/tensor/lines.cuh>

extern "C" __global__ void __launch_bounds__(256)
unisono_running_sums(const __grid_constant__ unisono::ScanParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    running_sums<Bf16, 32>(p);
}
