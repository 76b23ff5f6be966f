#pragma once
/// What run and demo print of a run: times, agreement, detections.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "command/detection.hpp"
#include "command/execution.hpp"
#include "reference/network/answer.hpp"

namespace unisono::command {

/// "all 368,640 values agree with the float64 reference: largest error 3.1e-07, tolerance 2.0e-05".
std::string to_text(const float64::NetworkAgreement& agreement);
nlohmann::json to_json(const float64::NetworkAgreement& agreement);

/// "7.61 ms a run (median of 50; fastest 7.48, p90 7.90), the first 35.2 ms": p90 from 10 runs on, p99 from 100.
std::string to_text(const Timing& timing);
nlohmann::json to_json(const Timing& timing);

/// A peak with its place in the pixels of an image of another size.
nlohmann::json to_json(const Peak& peak, const std::vector<std::string>& classes, double scale_x, double scale_y);

/// "1,234,567".
std::string grouped(std::int64_t number);

}  // namespace unisono::command
