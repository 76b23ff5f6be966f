#pragma once
/// --plans, --walk: whether every kernel that a planner may choose compiles. Needs no GPU.

namespace unisono::gpu {

/// Draws `--plans` kernels by `--seed`: of products, attention and tensors, and of random problems by any legal plan.
/// Compiles them by the command `--syntax`, many in one file, or by NVRTC. Exit code 1 if one does not compile, with a
/// line that runs it again.
int draw_plans();

/// Compiles all kernels of products, attention and tensors, and plans of convolutions that cover every pair of
/// parameters that was met, by NVRTC in `--jobs` processes. The folder `--walk` keeps what was done: a later call goes
/// on. Exit code 1 if one does not compile; its text and the compiler's log are in the folder.
int walk_plans();

}  // namespace unisono::gpu
