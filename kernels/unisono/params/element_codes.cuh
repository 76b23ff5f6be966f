// Element types that a kernel is told at run time: column CODE of include/unisono/dtypes.def.
#pragma once

namespace unisono {

enum class ElementCode : int { none = -1, f32, bf16, f16 };

}  // namespace unisono
