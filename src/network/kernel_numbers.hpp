#pragma once
/// How kernels are numbered wherever a network is shown: explain, profiles, traces and pictures.

#include <map>
#include <string>

#include "unisono/network/executable.hpp"

namespace unisono::network {

/// By the name of the tensor that a region makes: regions that are not free, from 1 on, in the order in which they run.
/// All launches of a region have its number.
class KernelNumbers {
 public:
  explicit KernelNumbers(const FusionReport& report);
  /// `name`: StepTime::name or LaunchReport::name. Gives 0 for what belongs to no kernel, such as "input x".
  int of(const std::string& name) const;

 private:
  std::map<std::string, int> numbers_;
};

}  // namespace unisono::network
