#pragma once
/// The attributes that convolutions and poolings share.

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

/// One entry an axis after images and channels.
struct Window {
  std::vector<std::int64_t> kernel, stride, dilation, before, after;

  Pair pair(const std::vector<std::int64_t>& list) const { return {list[0], list[1]}; }
  Margins margins() const { return {before[0], before[1], after[0], after[1]}; }
};

/// Reads kernel_shape (else `kernel`), strides, dilations, pads and auto_pad for x (N,C,…). `transposed`: auto_pad is
/// that of ConvTranspose, left to its importer.
Window read_window(const NodeReader& node, const Shape& x, const std::optional<std::vector<std::int64_t>>& kernel,
                   bool transposed = false);

/// That of a row of pixels as one of an image of one row.
Window with_row(Window f);

/// A list attribute of `n` numbers, each `otherwise` if it is absent.
std::vector<std::int64_t> read_list(const NodeReader& node, std::string_view name, std::size_t n,
                                    std::int64_t otherwise);

/// (N,C,L) as (N,C,1,L), and back.
NetworkValue lifted(const NodeReader& node, NetworkValue x);
NetworkValue lowered(const NodeReader& node, NetworkValue x);

}  // namespace unisono::network::onnx_import
