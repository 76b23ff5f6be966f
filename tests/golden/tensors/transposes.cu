// Kernels that move elements between two orders of memory.
#include <unisono/tensor/transpose.cuh>

extern "C" __global__ void __launch_bounds__(256)
unisono_transpose_1(const __grid_constant__ unisono::TransposeParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    transpose<u8>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_transpose_2(const __grid_constant__ unisono::TransposeParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    transpose<u16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_transpose_4(const __grid_constant__ unisono::TransposeParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    transpose<u32>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_transpose_8(const __grid_constant__ unisono::TransposeParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    transpose<u64>(p);
}
