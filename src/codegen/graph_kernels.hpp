#pragma once
/// Kernels for an epilogue graph that stands by itself: over a tensor of a network, or over the sums of a contraction
/// that another kernel left in memory. Kernels for each reduction, with those that share its input and domain, and a
/// last one for the stores. Pure: the same input gives the same text.

#include <string>
#include <vector>

#include "codegen/graph_kernel.hpp"
#include "plan/expected.hpp"
#include "unisono/graph.hpp"

namespace unisono::codegen {

/// `optimised` has been through passes::run_pipeline. Refuses what no kernel has.
plan::Expected<std::vector<GraphKernel>> graph_kernels(const Graph& optimised, const GraphStorage& storage);

/// The kernels of plain/plain.cuh for a 16-bit type; `name` is one of to_string(PlainKernel).
enum class PlainKernel : std::uint8_t { enter, leave, pool_images, join_moments };
std::string_view to_string(PlainKernel kernel);
/// One translation unit with all of them.
std::string plain_source(DType element);
/// Name of a kernel in it.
std::string plain_entry(PlainKernel kernel);

}  // namespace unisono::codegen
