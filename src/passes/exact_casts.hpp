#pragma once
#include "passes/editor.hpp"
#include "unisono/dtype.hpp"

namespace unisono::passes {

/// True if every value of dtype `from` is a value of dtype `to`, infinities and NaN included.
bool is_widening(DType from, DType to);

/// Removes casts that round nothing: to the dtype that the value has, and of two casts in a row the first if it widens.
/// cast(x : f32 → f64 → bf16) becomes cast(x : f32 → bf16); cast(x : f32 → bf16 → f32) stays as it is.
bool drop_exact_casts(Editor& graph);

}  // namespace unisono::passes
