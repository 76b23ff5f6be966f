#pragma once
/// What a GPU's peaks need for a contraction and its tensors.

#include <utility>

#include "plan/device.hpp"
#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::explore {

/// Element types of both factors.
std::pair<DType, DType> factor_dtypes(const Contraction& contraction);

struct Roofline {
  double tflops = 0, tbps = 0;  ///< peaks of tensor cores for these operands, and of memory
  double bytes = 0;             ///< both factors, and stores with an element for each row and column
  double us = 0;                ///< the longer of what these two need
};

Roofline roofline_of(const Contraction& contraction, const Graph& graph, const plan::Device& device);

}  // namespace unisono::explore
