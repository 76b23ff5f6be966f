#pragma once
/// The attributes that convolutions and poolings share.

#include "network/onnx/importer.hpp"

namespace coda::network::onnx_import {

struct Window {
  Pair kernel = 1, stride = 1, dilation = 1;
  Margins pad = 0;
};

/// Reads kernel_shape (else `kernel`), strides, dilations, pads and auto_pad for the image `x`.
Window read_window(const NodeReader& node, const Shape& x, std::optional<Pair> kernel);

/// A list attribute of two numbers.
Pair read_pair(const NodeReader& node, std::string_view name, Pair otherwise);

}  // namespace coda::network::onnx_import
