#pragma once
/// A program around a library's text, that runs its kernel once and checks every element.

#include <cstddef>
#include <string>

#include "families/cutlass_evt/config.hpp"
#include "families/cutlass_evt/visitors.hpp"
#include "plan/as_convolution.hpp"

namespace unisono::families::cutlass_evt {

/// A kernel that computes each element by itself, in float64 sums and the visitors' own steps, and `int main()`, which
/// exits with 0 if the library's results agree with it. `workspace`: bytes that the kernel may need for the task.
std::string self_check(const Visitors& visitors, const Config& config, const plan::ConvTask& task,
                       std::size_t workspace);

}  // namespace unisono::families::cutlass_evt
