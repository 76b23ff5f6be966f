// Outputs that are made of several elements.
#include <unisono/tensor/products.cuh>

extern "C" __global__ void __launch_bounds__(256)
unisono_outputs(const __grid_constant__ unisono::ProductParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    product_of_matrices<Bf16, float, Bf16>(p);
}
