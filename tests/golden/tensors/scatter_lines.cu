// Updates joined with elements that indices name.
#include <unisono/tensor/scatter_lines.cuh>

extern "C" __global__ void __launch_bounds__(256)
unisono_scatter_lines(const __grid_constant__ unisono::ScatterLinesParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    scatter_lines<i32, i32, JoinGreater>(p);
}
