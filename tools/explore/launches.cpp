#include "explore/launches.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>

namespace unisono::explore {
namespace {

/// The operators of "rows of conv2d (1,8,4) -> 16, 3x3, then mish, slice": a word before the first shape, and all after
/// "then".
std::vector<std::string> operators_in(std::string_view what) {
  std::vector<std::string> words;
  const std::size_t shape = what.find(" (");
  const std::string_view head = what.substr(0, shape);
  const std::size_t space = head.rfind(' ');
  words.emplace_back(space == std::string_view::npos ? head : head.substr(space + 1));
  std::size_t at = what.find(", then ");
  if (at == std::string_view::npos) return words;
  at += 7;
  while (at < what.size()) {
    const std::size_t end = std::min(what.find(", ", at), what.size());
    words.emplace_back(what.substr(at, end - at));
    at = end + 2;
  }
  return words;
}

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool moves(const std::string& word) {
  static constexpr std::array<std::string_view, 20> words{
      "reshape",        "transpose",      "flatten",      "concat",          "slice",     "gather",    "pad",
      "expand",         "split",          "cast",         "identity",        "squeeze",   "unsqueeze", "tile",
      "depth_to_space", "space_to_depth", "reshape_like", "gather_elements", "gather_nd", "reorder"};
  return is_one_of(word, words);
}

bool normalises(const std::string& word) { return word.ends_with("_norm") || word.ends_with("softmax"); }

bool reduces(const std::string& word) {
  static constexpr std::array<std::string_view, 13> words{
      "resize",  "linear",     "nearest",          "cubic",       "arg_max",   "arg_min", "top_k",
      "cum_sum", "scatter_nd", "scatter_elements", "grid_sample", "roi_align", "non_zero"};
  return word.starts_with("reduce_") || word.ends_with("_pool") || word.starts_with("scatter") ||
         is_one_of(word, words);
}

bool multiplies(const std::string& word) {
  return word.starts_with("conv") || word == "gemm" || word == "matmul" || word.starts_with("stacked_conv");
}

/// "statistics of …", "rows of …", "elements of …": passes over a tensor that an epilogue's graph is computed by.
bool is_pass_over_tensor(std::string_view what) {
  const std::string_view head = what.substr(0, what.find(" ("));
  return head.find(" of ") != std::string_view::npos;
}

bool is_border(std::string_view name) {
  for (const std::string_view prefix : {"input ", "output ", "to host ", "from host "})
    if (name.starts_with(prefix)) return true;
  return false;
}

Kind kind_of(const std::vector<std::string>& operators) {
  const auto any = [&](auto&& is) { return std::ranges::any_of(operators, is); };
  if (any([](const std::string& w) { return w.starts_with("attention"); })) return Kind::attention;
  if (any(multiplies)) return Kind::contraction;
  if (any(normalises)) return Kind::normalisation;
  if (any(reduces)) return Kind::reduction;
  return std::ranges::all_of(operators, moves) ? Kind::movement : Kind::elementwise;
}

const RegionReport* region_of(const FusionReport& fusion, const std::string& name) {
  const auto at = std::ranges::find(fusion.regions, name, &RegionReport::name);
  return at == fusion.regions.end() ? nullptr : &*at;
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::contraction: return "contraction";
    case Kind::attention: return "attention";
    case Kind::normalisation: return "normalisation";
    case Kind::elementwise: return "elementwise";
    case Kind::movement: return "movement";
    case Kind::reduction: return "reduction";
    case Kind::host: return "host";
  }
  return "";
}

Kind kind_of(const LaunchReport& launch, const RegionReport* region) {
  if (launch.on_host) return Kind::host;
  if (launch.predicted_us > 0) return Kind::contraction;
  if (is_border(launch.name) || launch.what.starts_with("change of")) return Kind::movement;
  std::vector<std::string> operators = operators_in(launch.what);
  if (is_pass_over_tensor(launch.what)) {
    if (region) operators.insert(operators.end(), region->operators.begin(), region->operators.end());
    return std::ranges::any_of(operators, normalises) ? Kind::normalisation : Kind::elementwise;
  }
  return kind_of(operators);
}

std::vector<Launch> launches_of(const DeviceReport& report, const std::vector<StepTime>& profile) {
  std::multimap<std::pair<std::string, std::string>, std::size_t> steps;  // a region's launches differ in what they do
  for (std::size_t i = 0; i < profile.size(); ++i) steps.emplace(std::pair(profile[i].name, profile[i].what), i);
  std::vector<Launch> all;
  for (const LaunchReport& l : report.launches) {
    Launch launch{.report = l, .kind = kind_of(l, region_of(report.fusion, l.name))};
    if (const auto at = steps.find({l.name, l.what}); at != steps.end()) {
      launch.step = at->second, launch.measured_us = 1000 * profile[at->second].milliseconds;
      steps.erase(at);
    }
    all.push_back(std::move(launch));
  }
  return all;
}

std::vector<Launch> launches_of(const FusionReport& report, const std::vector<StepTime>& profile) {
  std::vector<Launch> all;
  const auto add = [&](LaunchReport l, std::optional<double> us) {
    const RegionReport* region = region_of(report, l.name);
    Kind kind = kind_of(l, region);
    if (region && region->kind == RegionReport::Kind::contraction) kind = Kind::contraction;
    if (region && region->kind == RegionReport::Kind::epilogue) kind = kind_of(region->operators);
    all.push_back({std::move(l), kind, us, us ? std::optional(all.size()) : std::nullopt});
  };
  for (const StepTime& s : profile)
    add({.name = s.name, .what = s.what, .how = s.how, .flop = s.flop, .bytes = s.bytes}, 1000 * s.milliseconds);
  if (!profile.empty()) return all;
  for (const RegionReport& r : report.regions) {
    if (r.kind == RegionReport::Kind::free) continue;
    LaunchReport l;
    l.name = r.name, l.what = r.contraction.empty() ? "epilogue over " + r.name : r.contraction;
    add(std::move(l), {});
  }
  return all;
}

std::vector<Kind> kinds_of(const FusionReport& report, const std::vector<StepTime>& profile) {
  std::vector<Kind> kinds;
  if (std::ranges::all_of(profile, [](const StepTime& s) { return s.how.empty(); })) {  // on the CPU
    for (const Launch& l : launches_of(report, profile)) kinds.push_back(l.kind);
    return kinds;
  }
  for (const StepTime& s : profile) {
    LaunchReport l{.name = s.name, .what = s.what, .how = s.how, .flop = s.flop, .bytes = s.bytes};
    l.on_host = s.how.starts_with("host");
    kinds.push_back(kind_of(l, region_of(report, s.name)));
  }
  return kinds;
}

}  // namespace unisono::explore
