#pragma once
/// What a measured plan is kept under.

#include <compare>
#include <string>

#include "plan/as_convolution.hpp"
#include "plan/device.hpp"
#include "plan/epilogue.hpp"

namespace unisono::tuning {

/// One problem, whoever's. Two problems with the same key have the same candidates with the same predictions.
struct Key {
  std::string problem;   ///< "8,64,64,320->320,3x3,pad=1,dtype=bf16": extents, and how the operands lie
  std::string epilogue;  ///< its class: a few words and a hash of the optimised graph without names and numbers

  auto operator<=>(const Key&) const = default;
};

Key key_of(const plan::ConvTask& task, const plan::Epilogue& epilogue);

/// Where and by what something was measured.
struct Platform {
  std::string device;  ///< "NVIDIA H200"
  int sms = 0;
  std::string driver;   ///< its version; empty: unknown, matches any
  std::string kernels;  ///< a hash of the device headers that this library holds

  auto operator<=>(const Platform&) const = default;
};

Platform platform_of(const plan::Device& device);

}  // namespace unisono::tuning
