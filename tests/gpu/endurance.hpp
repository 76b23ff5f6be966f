#pragma once
/// Many launches on two streams beside a busy one, compared bit for bit with the first.

namespace unisono::gpu {

/// options().endurance launches in options().processes processes; half of them plain, half as replays of graphs. Prints
/// what it did and returns the exit code: 0, 1 for wrong bits, 3 for a hang.
int run_endurance(const char* program);

}  // namespace unisono::gpu
