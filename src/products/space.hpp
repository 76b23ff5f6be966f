#pragma once
/// All kernels of this folder.

#include <vector>

#include "products/kernel.hpp"

namespace unisono::products {

/// Every kernel that the planners of this folder may choose on the device, each text once. Which there are is said
/// where each planner is: attention_space(), sm90_attention_space(), matrix_product_space(), filter_gradient_space(),
/// sm90_filter_gradient_space(), norm_gradient_space().
std::vector<Kernel> every_kernel(const plan::Device& device);

}  // namespace unisono::products
