#pragma once
/// What of a contraction the kernels of this family do not compute, and why; and how they read the rest.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "families/interface/family.hpp"
#include "families/mma/plan.hpp"

namespace unisono::families::mma {

/// Why there are no kernels for a device; nothing: there are.
std::optional<Refusal> refuse_device(const plan::Device& device);

/// Every reason why no plan multiplies the operands; none: some may.
std::vector<std::string> refuse_contraction(const plan::ConvTask& task);

/// What matrix instructions multiply, as it lies in memory: bf16, f16, or tf32 for f32.
DType element_of(const plan::ConvTask& task);

/// Whether the image is read by its filter's taps.
bool reads_pixels(const plan::ConvTask& task);

Operand image_of(const plan::ConvTask& task);
Operand filter_of(const plan::ConvTask& task);

/// k: taps times channels of a group.
std::int64_t depth_of(const plan::ConvTask& task);

/// Image rows from the first one ahead of an image, its padding, to its first, and from a filter's first tap to its
/// last; of volumes among the rows of all planes.
std::int64_t rows_ahead(const plan::ConvTask& task);
std::int64_t rows_of_reach(const plan::ConvTask& task);

/// Output pixels of a transposed convolution that are a stride apart take the same taps: a phase. Every phase has the
/// pixels of the largest, and along an axis every step-th tap, each `back` input pixels before the last.
struct Phases {
  std::int64_t count = 1;      ///< 1: there is no stride, or no transposed convolution
  std::int64_t height, width;  ///< one image has of a phase
  Pair step = 1, back = 0;
};
Phases phases_of(const plan::ConvTask& task);

}  // namespace unisono::families::mma
