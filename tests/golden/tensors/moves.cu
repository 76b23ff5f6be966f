// Kernels that move elements of tensors.
#include <unisono/tensor/moves.cuh>

extern "C" __global__ void __launch_bounds__(256)
unisono_move_1(const __grid_constant__ unisono::MoveParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    move<u8>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_reorder_1(const __grid_constant__ unisono::ReorderParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    reorder<u8>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_triangle_1(const __grid_constant__ unisono::TriangleParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    triangle<u8>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_move_2(const __grid_constant__ unisono::MoveParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    move<u16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_reorder_2(const __grid_constant__ unisono::ReorderParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    reorder<u16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_triangle_2(const __grid_constant__ unisono::TriangleParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    triangle<u16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_move_4(const __grid_constant__ unisono::MoveParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    move<u32>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_reorder_4(const __grid_constant__ unisono::ReorderParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    reorder<u32>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_triangle_4(const __grid_constant__ unisono::TriangleParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    triangle<u32>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_move_8(const __grid_constant__ unisono::MoveParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    move<u64>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_reorder_8(const __grid_constant__ unisono::ReorderParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    reorder<u64>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_triangle_8(const __grid_constant__ unisono::TriangleParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    triangle<u64>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_move_16(const __grid_constant__ unisono::MoveParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    move<uint4>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_range_8(const __grid_constant__ unisono::RangeParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    range(p);
}
