#pragma once
/// Rows for the tests of measured plans.

#include <string>

#include "tuning/row.hpp"

namespace unisono::tuning::test {

inline Row row(const std::string& problem, const std::string& plan = "tile=128x160 depth=64") {
  return {.platform = {"NVIDIA H200", 132, "580.95.05", "0123456789ab"},
          .key = {problem, "bare #0123"},
          .plan = plan,
          .measured_us = 61.25,
          .predicted_us = 63.5,
          .when = "2026-11-21T20:40:12Z"};
}

}  // namespace unisono::tuning::test
