#pragma once
/// What the kernels of this family do not compute, and why.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "families/interface/family.hpp"

namespace unisono::families::plain {

/// Why there are no kernels for a device; nothing: there are.
std::optional<Refusal> refuse_device(const plan::Device& device);

/// Every reason why no plan serves the workload; none: all plans do. Throws UserError for a contraction or groups that
/// are wrong.
std::vector<std::string> refuse(const Workload& workload);

/// Whether neighbours in the image's memory are pixels, or rows m of A (k, m).
bool rows_lie_together(const plan::ConvTask& task);
/// Whether neighbours in the filter's memory are outputs.
bool columns_lie_together(const plan::ConvTask& task);

/// Rows of the output that tiles run through: an image's where each has filters of its own, else all.
std::int64_t range_rows(const plan::ConvTask& task);

}  // namespace unisono::families::plain
