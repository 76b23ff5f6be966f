// A reduction of tensors.
#include <unisono/tensor/reduce.cuh>

extern "C" __global__ void __launch_bounds__(256)
unisono_reduce(const __grid_constant__ unisono::ReduceParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    reduce<Bf16, i64, FoldPlace<float, false, false>, 1>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_join_parts(const __grid_constant__ unisono::ReduceParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    join_parts<i64, FoldPlace<float, false, false>>(p);
}
