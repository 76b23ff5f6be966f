// How tensors of the caller enter and leave.
#include <unisono/tensor/caller.cuh>

extern "C" __global__ void __launch_bounds__(256)
unisono_enter_1(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    enter<u8>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_enter_2(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    enter<u16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_enter_4(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    enter<u32>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_enter_8(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    enter<u64>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_enter_f32(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    enter_float<float>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_enter_bf16(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    enter_float<Bf16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_enter_f16(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    enter_float<F16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_leave_1(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    leave<u8>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_leave_2(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    leave<u16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_leave_4(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    leave<u32>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_leave_8(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    leave<u64>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_leave_f32(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    leave_float<float>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_leave_bf16(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    leave_float<Bf16>(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_leave_f16(const __grid_constant__ unisono::CallerParams p) {
    using namespace unisono;
    using namespace unisono::tensor;
    begin();
    leave_float<F16>(p);
}
