/// What memory each launch touches, and with it which launches may run beside each other.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "network/cuda/lowering.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::uint8_t space_of_callers = 1 + static_cast<std::uint8_t>(Place::Where::constant);

}  // namespace

Interval interval(const Place& place, std::int64_t rows, std::int64_t width, std::int64_t pitch) {
  Interval x{.space = static_cast<std::uint8_t>(place.where), .begin = place.offset};
  const bool dense = pitch == width || rows == 1;
  x.width = static_cast<std::size_t>(dense ? rows * width : width);
  x.rows = static_cast<std::size_t>(dense ? 1 : rows);
  x.pitch = static_cast<std::size_t>(dense ? 0 : pitch);
  return x;
}

Interval Lowering::all_of(const Located& at, const Sizes& s) const {
  const std::int64_t columns = column_count(s), size = static_cast<std::int64_t>(size_of(at.type));
  const std::int64_t width = std::min(at.pitch, (columns + 7) / 8 * 8);
  return interval(at.place, element_count(s) / std::max<std::int64_t>(columns, 1), width * size, at.pitch * size);
}

Interval Lowering::callers() const {
  return {.space = space_of_callers, .begin = 0, .width = net().inputs.size() + net().outputs.size()};
}

Interval Lowering::caller(std::size_t position) const {
  return {.space = space_of_callers, .begin = position, .width = 1};
}

// Each place in the arena or in scratch is one that is read or written: what is not named is not waited for
void Lowering::add(std::unique_ptr<PlainStep> step, std::string what, std::string how, std::vector<Place> used,
                   Touched touched) {
  for (const Place& place : used) {
    const auto is_here = [&](const Interval& x) {
      return x.space == static_cast<std::uint8_t>(place.where) && x.begin == place.offset;
    };
    const auto named = [&](const std::vector<Interval>& list) {
      return std::any_of(list.begin(), list.end(), is_here);
    };
    if (!place.constant && !named(touched.reads) && !named(touched.writes))
      throw InternalError(fmt::format("'{}' ({}) touches memory that it does not name", name_, what));
  }
  step->uses = {.reads = std::move(touched.reads), .writes = std::move(touched.writes)};
  step->uses.blocks = step->grid().blocks, step->uses.threads = step->grid().threads;
  add(std::unique_ptr<Step>(std::move(step)), std::move(what), std::move(how), std::move(used));
}

// Which launch waits for which; those that do not just wait for the one ahead of them say so
void Lowering::find_branches() {
  std::vector<Uses> uses;
  for (const auto& step : lowered_.steps) uses.push_back(step->uses);
  lowered_.after = dependencies(uses, {.multiprocessors = p_.device.multiprocessors});
  for (std::size_t i = 1; i < uses.size(); ++i) {
    const std::vector<std::size_t>& after = lowered_.after[i];
    if (after == std::vector<std::size_t>{i - 1}) continue;
    std::vector<std::size_t> numbers;
    for (const std::size_t j : after) numbers.push_back(j + 1);
    lowered_.steps[i]->how +=
        after.empty() ? "; waits for no launch" : fmt::format("; waits for launch {}", fmt::join(numbers, " and "));
  }
}

}  // namespace unisono::network::gpu
