#pragma once
/// Convolutions whose image is upsampled ahead of them. The image of twice the height and width has each pixel four
/// times: what a filter's taps see of one pixel they see together, and their sums are the taps of a transposed
/// convolution of stride 2 of the small image.

#include <functional>
#include <optional>
#include <string>

#include "network/cuda/decide/region_plan.hpp"

namespace unisono::network::gpu {

/// A kernel, or why there is none.
struct KernelChoice {
  std::optional<FamilyKernel> kernel;
  std::optional<Refusal> refusal;
};

/// Whether it is a convolution of an image that is upsampled ahead of it.
bool upsamples(const Operator& op);

/// The transposed convolution that the kernels compute in this form, if they compute one.
std::optional<ConvTranspose2d> transposed_form(const Contraction& given, Form form);

/// The image as the kernel of this form reads it; the location of one that is upsampled is open.
PitchedTensor image_of(const PlanningInput& in, const Operator& op, Form form);
Sizes image_sizes(const PlanningInput& in, const Operator& op, Form form);

/// The kernel that `make` has for the form that is predicted to be faster.
KernelChoice faster_form(const PlanningInput& in, const Operator& op, const std::function<KernelChoice(Form)>& make);

}  // namespace unisono::network::gpu
