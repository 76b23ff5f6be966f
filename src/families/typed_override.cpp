#include "families/typed_override.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "families/override.hpp"
#include "families/sm90/fields.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

using P = PlanOverride;

// In the order of the public enumerations
constexpr std::array<std::string_view, 3> schedules{"cooperative", "pingpong", "pingpong2"};
constexpr std::array<std::string_view, 5> loads{"halo", "im2col", "gather", "im2col_smem", "depthwise"};
constexpr std::array<std::string_view, 5> modes{"none", "resident", "streamed", "rows", "general"};
constexpr std::array<std::string_view, 3> spills{"bf16", "f16", "f32"};
constexpr std::array<std::string_view, 2> rasters{"rows", "channels"};
constexpr std::array<std::string_view, 3> aheads{"balanced", "first", "all"};
static_assert(static_cast<int>(P::Ahead::all) == static_cast<int>(families::sm90::Ahead::all));
constexpr std::array<std::string_view, 2> elements{"registers", "shared"};
static_assert(static_cast<int>(P::Schedule::pingpong2) == static_cast<int>(families::sm90::Order::pingpong2));
static_assert(static_cast<int>(P::Loads::depthwise) == static_cast<int>(families::sm90::Load::depthwise));
static_assert(static_cast<int>(P::Spill::f32) == static_cast<int>(families::sm90::Spill::f32));
static_assert(static_cast<int>(P::Raster::channels) == static_cast<int>(families::sm90::Raster::channels));
static_assert(static_cast<int>(P::Mode::general) == static_cast<int>(families::sm90::NormMode::general));

template <class Enum, std::size_t n>
std::string word(Enum value, const std::array<std::string_view, n>& words, std::string_view field) {
  const auto i = static_cast<std::size_t>(value);
  if (i >= n) throw UserError(fmt::format("PlanOverride::{} is {}, which is none of its values", field, i));
  return std::string(words[i]);
}

std::string text(int x) { return std::to_string(x); }
std::string text(bool on) { return on ? "on" : "off"; }
std::string text(const std::string& x) { return x; }
std::string text(const P::Tile& x) { return fmt::format("{}x{}", x.rows, x.channels); }
std::string text(const P::Cluster& x) { return fmt::format("{}x{}", x.rows, x.channels); }
std::string text(const P::Strip& x) { return fmt::format("{}x{}x{}", x.rows, x.pixels, x.channels); }
std::string text(const P::Stages& x) {
  return x.others == 0 ? std::to_string(x.filters) : fmt::format("{}+{}", x.filters, x.others);
}
std::string text(P::Schedule x) { return word(x, schedules, "schedule"); }
std::string text(P::Loads x) { return word(x, loads, "loads"); }
std::string text(P::Mode x) { return word(x, modes, "mode"); }
std::string text(P::Spill x) { return word(x, spills, "spill"); }
std::string text(P::Ahead x) { return word(x, aheads, "ahead"); }
std::string text(P::Raster x) { return word(x, rasters, "raster"); }
std::string text(P::Elements x) { return word(x, elements, "epilogue"); }

// The fields with a type, whatever their values
Override typed_as_text(const PlanOverride& fixed) {
  Override all;
  const auto put = [&all](const char* key, const auto& field) {
    if (field) all.fields.emplace(key, text(*field));
  };
  put("family", fixed.family), put("tile", fixed.tile), put("depth", fixed.depth), put("order", fixed.schedule);
  put("load", fixed.loads), put("stages", fixed.stages), put("buffers", fixed.store_buffers);
  put("cluster", fixed.cluster), put("split", fixed.split), put("swap", fixed.swap);
  put("stationary", fixed.stationary), put("mode", fixed.mode), put("unit", fixed.unit), put("group", fixed.group);
  put("spill", fixed.spill), put("raster", fixed.raster), put("hints", fixed.hints);
  put("epilogue", fixed.epilogue);
  put("ahead", fixed.ahead), put("fetch", fixed.fetch), put("thread", fixed.strip);
  return all;
}

}  // namespace

Override to_text_fields(const PlanOverride& fixed) {
  Override all = typed_as_text(fixed);
  for (const auto& [key, value] : fixed.others)
    if (const auto [there, added] = all.fields.emplace(key, value); !added)
      throw UserError(fmt::format("PlanOverride::others says {}={}, and the field with a type {}; fix it once", key,
                                  value, there->second));
  check_override(all);
  return all;
}

PlanOverride to_typed_fields(const Override& fixed) {
  const families::sm90::FixedFields f = families::sm90::resolve(fixed);
  PlanOverride typed;
  if (const auto family = fixed.fields.find("family"); family != fixed.fields.end()) typed.family = family->second;
  if (f.tile_m) typed.tile = P::Tile{*f.tile_m, *f.tile_n};
  typed.depth = f.tile_k;
  if (f.order) typed.schedule = static_cast<P::Schedule>(*f.order);
  if (f.load) typed.loads = static_cast<P::Loads>(*f.load);
  if (f.stages) typed.stages = P::Stages{*f.stages, f.stages_a.value_or(0)};
  typed.store_buffers = f.store_buffers;
  if (f.cluster_m) typed.cluster = P::Cluster{*f.cluster_m, *f.cluster_n};
  typed.split = f.split, typed.swap = f.swap, typed.stationary = f.stationary;
  if (f.mode) typed.mode = static_cast<P::Mode>(*f.mode);
  if (f.spill) typed.spill = static_cast<P::Spill>(*f.spill);
  if (f.raster) typed.raster = static_cast<P::Raster>(*f.raster);
  typed.hints = f.hints;
  if (f.ahead) typed.ahead = static_cast<P::Ahead>(*f.ahead);
  if (f.elements) typed.epilogue = static_cast<P::Elements>(*f.elements);
  typed.unit = f.unit, typed.group = f.group, typed.fetch = f.fetch;
  if (f.thread) typed.strip = P::Strip{(*f.thread)[0], (*f.thread)[1], (*f.thread)[2]};
  const Override has_types = typed_as_text(typed);
  for (const auto& field : fixed.fields)
    if (!has_types.fields.contains(field.first)) typed.others.insert(field);
  return typed;
}

Override fixed_by(const std::string& text, const PlanOverride& typed) {
  Override all = parse_override(text);
  for (const auto& [key, value] : to_text_fields(typed).fields)
    if (const auto [there, added] = all.fields.emplace(key, value); !added)
      throw UserError(fmt::format(
          "CompileOptions::plan says {}={} and CompileOptions::plan_override {}; fix each field in one of them", key,
          there->second, value));
  check_override(all);
  return all;
}

}  // namespace unisono::plan

namespace unisono {

std::string to_string(const PlanOverride& fixed) { return plan::to_string(plan::to_text_fields(fixed)); }

PlanOverride parse_plan(const std::string& text) { return plan::to_typed_fields(plan::parse_override(text)); }

}  // namespace unisono
