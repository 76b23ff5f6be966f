#include "plan/resampling.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/epilogue.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

using Place = Output::Place;

bool is_stored_by_map(const Output& o) { return o.place == Place::before || o.place == Place::after; }

}  // namespace

Resampling resampling_of(const Resampled& wanted) {
  return {.only = wanted.only_enlarged, .pooled = !wanted.pooled.empty(), .enlarged = !wanted.enlarged.empty()};
}

std::optional<std::size_t> main_store(const Epilogue& e) {
  const auto main = std::ranges::find_if(e.outputs, is_stored_by_map);
  return main == e.outputs.end() ? std::nullopt : std::optional(main->store);
}

void resample(Epilogue& e, const Resampled& wanted, const Contraction& contraction) {
  if (!wanted.any()) return;
  if (std::holds_alternative<Gemm>(contraction))
    throw Unsupported(fmt::format("resampled: {} has no image", to_string(contraction)));
  const auto main = main_store(e);
  if (!main) throw Unsupported("resampled: no result [m,n] of 16 bits is written by TMA, of which to make it");
  const std::string& name = e.graph.stores[*main].name;
  if (!wanted.source.empty() && wanted.source != name)
    throw Unsupported(fmt::format("resampled: the kernel writes '{}' last, and '{}' is made of another store", name,
                                  wanted.pooled.empty() ? wanted.enlarged : wanted.pooled));
  e.resampled = wanted;
}

std::string to_string(const Resampling& r) {
  std::string text = r.enlarged ? r.only ? "enlarged only" : "enlarged" : "";
  if (r.pooled) text += text.empty() ? "pooled" : ", pooled";
  return text;
}

}  // namespace unisono::plan
