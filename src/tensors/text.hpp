#pragma once
/// What the text of all tensor kernels is made of.

#include <string>
#include <string_view>

#include "unisono/dtype.hpp"

namespace unisono::tensors {

/// The tag of a dtype in memory (kernels/unisono/tensor/number.cuh): "Bf16", "bool", "i64". Throws InternalError for
/// one that no tensor of a network has.
std::string_view tag_of(DType t);

/// The C++ type in which such elements are numbers: "float" of bf16.
std::string_view number_of(DType t);

/// The unsigned word of so many bytes, 1 to 16: "u16", "uint4".
std::string_view word_of(std::size_t bytes);

/// A kernel with one parameter, of a struct of kernels/unisono/params/tensor_params.cuh, that calls a function of
/// kernels/unisono/tensor/ for it: "reduce<float, float, FoldProduct<float>, 32>".
std::string kernel_text(std::string_view entry, std::string_view parameters, std::string_view function);

}  // namespace unisono::tensors
