#pragma once
/// Kernels that store moments of what they store (Case::moments), and others with what no option of CompileOptions asks
/// for.

#include "gpu/testbed.hpp"
#include "lower/lower.hpp"

namespace unisono::gpu {

inline constexpr const char* moments_name = "moments";

/// The case's kernel, with its moments and delays.
lower::Lowered kernel_of(const Case& c, const plan::Device& device);
/// Compiled and loaded, on the GPU under test.
Executable compile_case(const Case& c);
/// Empty if every unit's entries, merged in float64, are the moments of the stored values.
std::string judge_moments(const Outcome& outcome, const ConstTensorView& stored);

}  // namespace unisono::gpu
