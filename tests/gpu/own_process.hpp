#pragma once
/// Tests that lose the GPU's context run in a process of their own, whose context goes with it.

#include <functional>
#include <string>

namespace unisono::gpu {

/// What a disabled test of this program printed in such a process, which has the same GPU.
std::string said_by(const std::string& test);

/// The body of such a test: prints "found: " with the DeviceError that `run` ends with, or "not found", and ends the
/// process as it is, since nothing can be given back.
[[noreturn]] void say_what_ends(const std::function<void()>& run);

}  // namespace unisono::gpu
