#pragma once
/// GPUs by name, as planners see them: for plans that are made where there is no such GPU.

#include <string_view>
#include <vector>

#include "plan/device.hpp"

namespace unisono::plan {

/// What a product's driver reports, by the data sheets: "A100", "RTX 4090".
struct Product {
  std::string_view name;
  DeviceAttributes reported;
};
const std::vector<Product>& products();

/// The product of this name, whatever its case. Throws UserError with the names that there are.
Device product(std::string_view name);

/// A GPU that is planned for as if it were this product, whose kernels it runs: with the product's families, shared
/// memory and SMs, as far as it has as many, and code for itself. `sm_80` and `sm_86` are its own SMs and rates with
/// the families and the shared memory of these architectures. Throws UserError for a product of a later compute
/// capability.
Device planned_as(const Device& own, std::string_view name);

}  // namespace unisono::plan
