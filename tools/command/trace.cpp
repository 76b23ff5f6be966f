#include "command/trace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "command/json.hpp"
#include "media/file.hpp"
#include "network/kernel_numbers.hpp"

namespace unisono::command {
namespace {

using nlohmann::json;

enum Lane { steps_lane = 1, floor_lane = 2 };

json lane_name(Lane lane, const char* name) {
  return {
      {"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", static_cast<int>(lane)}, {"args", {{"name", name}}}};
}

json span(const std::string& name, Lane lane, double start_us, double us, json args) {
  return {
      {"name", name},           {"ph", "X"}, {"pid", 1}, {"tid", static_cast<int>(lane)}, {"ts", start_us}, {"dur", us},
      {"args", std::move(args)}};
}

}  // namespace

std::string trace_of(const std::string& model, const std::string& device, const std::vector<StepTime>& profile,
                     const FusionReport& fusion) {
  const network::KernelNumbers numbers(fusion);
  json events = json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", model + " on " + device}}}});
  events.push_back(lane_name(steps_lane, "steps"));
  const bool has_floors = std::ranges::any_of(profile, [](const StepTime& s) { return s.floor_ms > 0; });
  if (has_floors) events.push_back(lane_name(floor_lane, "by the device's peaks"));
  double at_us = 0;
  for (const StepTime& s : profile) {
    const double us = 1000 * s.milliseconds;
    json args{{"what", s.what}};
    if (!s.how.empty()) args["how"] = s.how;
    if (s.flop > 0) args["TFLOP/s"] = s.flop / us / 1e6;
    if (s.bytes > 0) args["GB/s"] = s.bytes / us / 1e3;
    const int kernel = numbers.of(s.name);
    const std::string name = kernel == 0 ? s.name : fmt::format("{}. {}", kernel, s.name);
    events.push_back(span(name, steps_lane, at_us, us, std::move(args)));
    if (s.floor_ms > 0) events.push_back(span(name, floor_lane, at_us, 1000 * s.floor_ms, json::object()));
    at_us += us;
  }
  return dump(json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}) + "\n";
}

void write_trace(const std::filesystem::path& file, const std::string& model, const std::string& device,
                 const std::vector<StepTime>& profile, const FusionReport& fusion) {
  media::write_file(file, trace_of(model, device, profile, fusion));
}

}  // namespace unisono::command
