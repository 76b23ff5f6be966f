#include "plan/resampling.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/epilogue.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

using Place = Output::Place;

bool is_stored_by_map(const Output& o) { return o.place == Place::before || o.place == Place::after; }

void check_name(const Epilogue& e, const std::string& name, const Resampled& wanted) {
  const bool stored = std::ranges::any_of(e.graph.stores, [&](const Store& s) { return s.name == name; });
  if (!name.empty() && (stored || wanted.pooled == wanted.enlarged))
    throw UserError(fmt::format("CompileOptions::resampled: the name '{}' is that of {}; expected one of its own", name,
                                stored ? "a store of the graph" : "both the pooled and the enlarged tensor"));
}

}  // namespace

Resampling resampling_of(const Resampled& wanted) {
  return {.only = wanted.only_enlarged, .pooled = !wanted.pooled.empty(), .enlarged = !wanted.enlarged.empty()};
}

std::optional<std::size_t> main_store(const Epilogue& e) {
  const auto main = std::ranges::find_if(e.outputs, is_stored_by_map);
  return main == e.outputs.end() ? std::nullopt : std::optional(main->store);
}

void resample(Epilogue& e, const Resampled& wanted, const Contraction& contraction) {
  if (wanted.only_enlarged && wanted.enlarged.empty())
    throw UserError(
        "CompileOptions::resampled: only_enlarged, and no name for the enlarged tensor; expected a name in `enlarged`");
  if (!wanted.any()) return;
  if (std::holds_alternative<Gemm>(contraction))
    throw UserError(
        fmt::format("CompileOptions::resampled: {} has no image; expected a convolution", to_string(contraction)));
  check_name(e, wanted.pooled, wanted);
  check_name(e, wanted.enlarged, wanted);
  if (!main_store(e)) throw Unsupported("resampled: no result [m,n] of 16 bits is written by TMA, of which to make it");
  e.resampled = wanted;
}

std::string to_string(const Resampling& r) {
  std::string text = r.enlarged ? r.only ? "enlarged only" : "enlarged" : "";
  if (r.pooled) text += text.empty() ? "pooled" : ", pooled";
  return text;
}

}  // namespace unisono::plan
