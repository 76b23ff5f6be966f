#pragma once
/// Inputs and outputs of 16 bits where tensors are stored in that type.

#include "unisono/network.hpp"

namespace unisono::network {

/// ONNX's tensors of 16 bits are f32 within a network, with a cast behind each input and ahead of each output. Where
/// memory has that type the casts change nothing: the input and the output are f32 themselves, which the caller has in
/// 16 bits. So the first and the last kernel read and write the caller's memory, as those of a network of f32 do.
/// Casts of islands, and of tensors that are inputs and outputs at once, stay.
Network with_short_borders(Network network, DType element);

}  // namespace unisono::network
