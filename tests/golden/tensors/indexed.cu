// Kernels that move what indices name.
#include <unisono/tensor/indexed.cuh>

extern "C" __global__ void __launch_bounds__(256)
unisono_gather_1(const __grid_constant__ unisono::GatherParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    gather<u8>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_scatter_1(const __grid_constant__ unisono::ScatterParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    scatter<u8>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_gather_2(const __grid_constant__ unisono::GatherParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    gather<u16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_scatter_2(const __grid_constant__ unisono::ScatterParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    scatter<u16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_gather_4(const __grid_constant__ unisono::GatherParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    gather<u32>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_scatter_4(const __grid_constant__ unisono::ScatterParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    scatter<u32>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_gather_8(const __grid_constant__ unisono::GatherParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    gather<u64>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_scatter_8(const __grid_constant__ unisono::ScatterParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    scatter<u64>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_gather_16(const __grid_constant__ unisono::GatherParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    gather<uint4>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_scatter_16(const __grid_constant__ unisono::ScatterParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    scatter<uint4>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_clear(const __grid_constant__ unisono::ClearParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    clear(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_claim(const __grid_constant__ unisono::ScatterParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    claim(p);
}
