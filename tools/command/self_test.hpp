#pragma once
/// A small kernel, compiled and run: does a backend work on this machine at all?

#include <string>

#include "unisono/executable.hpp"

namespace unisono::command {

struct SelfTest {
  bool passed = false;
  std::string text;  ///< what was computed and how well it agreed with the reference, or the error
};

/// Conv2D → bias → GroupNorm → Mish (on the first GPU: ReLU, in bf16) on 2 images of 9×9×8, compared with the float64
/// reference. Never throws.
SelfTest self_test(Device device) noexcept;

}  // namespace unisono::command
