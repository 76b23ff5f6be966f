#include "families/sm90/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "unisono/error.hpp"

namespace unisono::families::sm90 {
namespace {

using plan::PlanField;

/// A field, and where its value goes.
struct Row {
  PlanField field;
  void (*set)(FixedFields&, const PlanField&, std::string_view value);
};

template <std::optional<int> FixedFields::*to>
void set_number(FixedFields& f, const PlanField& field, std::string_view value) {
  f.*to = plan::numbers_of(field, value)[0];
}
template <std::optional<int> FixedFields::*first, std::optional<int> FixedFields::*second>
void set_numbers(FixedFields& f, const PlanField& field, std::string_view value) {
  const std::vector<int> n = plan::numbers_of(field, value);
  f.*first = n[0];
  if (n.size() > 1) f.*second = n[1];
}
template <std::optional<int> FixedFields::*to>
void set_known_number(FixedFields& f, const PlanField& field, std::string_view value) {
  f.*to = std::stoi(std::string(field.words[plan::word_of(field, value)]));
}
template <auto to>
void set_word(FixedFields& f, const PlanField& field, std::string_view value) {
  using Word = typename std::remove_cvref_t<decltype(f.*to)>::value_type;
  f.*to = static_cast<Word>(plan::word_of(field, value));
}
template <std::optional<bool> FixedFields::*to>
void set_switch(FixedFields& f, const PlanField& field, std::string_view value) {
  f.*to = plan::word_of(field, value) == 0;
}
void set_thread(FixedFields& f, const PlanField& field, std::string_view value) {
  const std::vector<int> n = plan::numbers_of(field, value);
  f.thread = {n[0], n[1], n[2]};
}

using F = FixedFields;

std::vector<Row> make_rows() {
  const std::vector<std::string_view> on_off{"on", "off"}, orders{"cooperative", "pingpong", "pingpong2"};
  return {
      {{"tile", "ROWSxCHANNELS, such as 128x160", {}, {1 << 15, 2, 2}}, set_numbers<&F::tile_m, &F::tile_n>},
      {{"depth", "128, 64 or 32", {"128", "64", "32"}}, set_known_number<&F::tile_k>},
      {{"order", "cooperative, pingpong or pingpong2", orders, {}, {{"pairs", "pingpong2"}}}, set_word<&F::order>},
      {{"load",
        "halo, im2col, gather, im2col_smem or depthwise",
        {"halo", "im2col", "gather", "im2col_smem", "depthwise"},
        {},
        {{"patch", "halo"}, {"runs", "im2col"}, {"unfold", "im2col_smem"}}},
       set_word<&F::load>},
      {{"stages",
        "a number, or of filters + of halo tiles or activations (im2col_smem: of rows of k + of windows), such as 5+3",
        {},
        {4096, 1, 2, '+'}},
       set_numbers<&F::stages, &F::stages_a>},
      {{"buffers", "a number of store buffers", {}, {1024}}, set_number<&F::store_buffers>},
      {{"cluster", "ROWSxCHANNELS in CTAs, such as 1x2", {}, {16, 2, 2}}, set_numbers<&F::cluster_m, &F::cluster_n>},
      {{"split", "on or off", on_off}, set_switch<&F::split>},
      {{"swap", "on or off", on_off}, set_switch<&F::swap>},
      {{"stationary", "on or off", on_off}, set_switch<&F::stationary>},
      {{"mode", "none, resident, streamed, rows or general", {"none", "resident", "streamed", "rows", "general"}},
       set_word<&F::mode>},
      {{"unit", "a number of channels", {}, {1024}}, set_number<&F::unit>},
      {{"group", "a number of rows of tiles", {}, {1 << 16}}, set_number<&F::group>},
      {{"spill", "bf16, f16 or f32", {"bf16", "f16", "f32"}}, set_word<&F::spill>},
      {{"raster", "rows or channels", {"rows", "channels"}}, set_word<&F::raster>},
      {{"hints", "on or off", on_off}, set_switch<&F::hints>},
      {{"deferred", "on or off", on_off}, set_switch<&F::deferred>},
      {{"epilogue", "registers or shared", {"registers", "shared"}}, set_word<&F::elements>},
      {{"fetch", "0 to 8 operands", {"0", "1", "2", "3", "4", "5", "6", "7", "8"}}, set_known_number<&F::fetch>},
      {{"ahead", "balanced, first or all", {"balanced", "first", "all"}}, set_word<&F::ahead>},
      {{"thread", "ROWSxPIXELSxCHANNELS of a depthwise convolution, such as 8x4x4", {}, {1024, 3, 3}}, set_thread},
  };
}

const std::vector<Row>& rows() {
  static const std::vector<Row> list = make_rows();
  return list;
}

const Row* find_row(std::string_view name) {
  const auto found = std::ranges::find(rows(), name, [](const Row& r) { return r.field.name; });
  return found == rows().end() ? nullptr : &*found;
}

std::string_view word(std::string_view field, std::size_t i) { return find_row(field)->field.words[i]; }

}  // namespace

std::span<const PlanField> plan_fields() {
  static const std::vector<PlanField> list = [] {
    std::vector<PlanField> fields;
    for (const Row& r : rows()) fields.push_back(r.field);
    return fields;
  }();
  return list;
}

FixedFields resolve(const PlanOverride& fixed) {
  FixedFields f;
  for (const auto& [name, value] : fixed.fields)
    if (const Row* r = find_row(name))
      if (const auto now = plan::as_now(r->field, value); is_value(r->field, now)) r->set(f, r->field, now);
  if (f.stages_a && f.load && f.load != Load::halo && f.load != Load::im2col_smem &&
      !(f.load == Load::im2col && f.stationary == true))
    throw UserError(
        fmt::format("plan override: stages={}+{} load={}: the second number counts stages of halo tiles, or of im2col "
                    "tiles with stationary filters (stationary=on); {} one ring, so give one number",
                    *f.stages, *f.stages_a, word("load", static_cast<std::size_t>(*f.load)),
                    f.load == Load::im2col   ? "im2col tiles have"
                    : f.load == Load::gather ? "gathered images have"
                                             : "depthwise convolutions have not even"));
  if (f.stages_a && !f.load && f.stationary != true) f.load = Load::halo;
  return f;
}

std::string_view to_string(Order order) { return word("order", static_cast<std::size_t>(order)); }
std::string_view to_string(NormMode mode) { return word("mode", static_cast<std::size_t>(mode)); }
std::string_view to_string(Ahead ahead) { return word("ahead", static_cast<std::size_t>(ahead)); }

}  // namespace unisono::families::sm90
