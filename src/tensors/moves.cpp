#include "tensors/moves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "support/float_convert.hpp"
#include "tensors/map.hpp"
#include "tensors/text.hpp"
#include "tensors/walk.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

std::string source_of_moves() {
  std::string text = "// Kernels that move elements of tensors.\n#include <unisono/tensor/moves.cuh>\n";
  const auto add = [&](std::string_view name, std::size_t bytes, std::string_view parameters) {
    text +=
        kernel_text(fmt::format("unisono_{}_{}", name, bytes), parameters, fmt::format("{}<{}>", name, word_of(bytes)));
  };
  for (const std::size_t bytes : {1, 2, 4, 8}) {
    add("move", bytes, "MoveParams");
    add("reorder", bytes, "ReorderParams");
    add("triangle", bytes, "TriangleParams");
  }
  add("move", 16, "MoveParams");
  return text + kernel_text("unisono_range_8", "RangeParams", "range");
}

std::string source_of_transposes() {
  std::string text =
      "// Kernels that move elements between two orders of memory.\n#include <unisono/tensor/transpose.cuh>\n";
  for (const std::size_t bytes : {1, 2, 4, 8})
    text += kernel_text(fmt::format("unisono_transpose_{}", bytes), "TransposeParams",
                        fmt::format("transpose<{}>", word_of(bytes)));
  return text;
}

std::int64_t bytes_of(const StridedTensor& x) { return static_cast<std::int64_t>(size_of(x.type.memory)); }

void require_one_type(const StridedTensor& x, const StridedTensor& to) {
  if (x.type.memory != to.type.memory)
    throw InternalError(
        fmt::format("elements of {} are moved to {}", to_string(x.type.memory), to_string(to.type.memory)));
}

std::string in_words(std::string_view what, std::int64_t bytes) {
  return fmt::format("{}, words of {} byte{}", what, bytes, bytes == 1 ? "" : "s");
}

/// Fewer neighbours than these are as fast one by one.
constexpr std::int64_t least_side = 16;

/// Which axis `from` is contiguous along while `to` is along the last; nothing: none, or of few elements.
std::optional<std::size_t> axis_across(const Walk& walk) {
  const Extents &from = walk.strides[0], &to = walk.strides[1], &extents = walk.extents;
  if (to.back() != 1 || from.back() == 1 || extents.back() < least_side) return std::nullopt;
  for (std::size_t i = 0; i + 1 < extents.size(); ++i)
    if (from[i] == 1 && extents[i] >= least_side) return i;
  return std::nullopt;
}

plan::Expected<Launches> transpose(const StridedTensor& x, const StridedTensor& to, const Walk& walk,
                                   std::size_t across) {
  const auto without = [&](Extents list, std::int64_t down_end, std::int64_t across_end) {
    list.pop_back(), list.erase(list.begin() + static_cast<std::ptrdiff_t>(across));
    list.insert(list.end(), {down_end, across_end});
    return list;
  };
  const auto tiles = [](std::int64_t elements) { return (elements + kTransposedSide - 1) / kTransposedSide; };
  const std::int64_t down = walk.extents.back(), wide = walk.extents[across];
  const auto space = index_space(without(walk.extents, tiles(down), tiles(wide)));
  if (!space) return space.refusal();
  TransposeParams p{};
  p.tiles = *space;
  set_strides(p.from.strides, without(walk.strides[0], 0, 0)),
      set_strides(p.to.strides, without(walk.strides[1], 0, 0));
  p.from_step = walk.strides[0].back(), p.to_step = walk.strides[1][across];
  p.down = static_cast<u32>(down), p.across = static_cast<u32>(wide);
  Launch launch = launch_of(move_kernel("transpose", size_of(to.type.memory)), std::int64_t{space->count} * 256, p,
                            in_words("transposed", bytes_of(to)));
  add_address(launch, offsetof(TransposeParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(TransposeParams, to), writes(1, start_of(to)));
  return Launches{{std::move(launch)}, {}, 0};
}

/// The same elements in an order that both shapes have axes for; nothing: a border of the one lies within an axis of
/// the other.
std::optional<Walk> common_walk(const Walk& from, const Walk& to) {
  Walk result{{}, {{}, {}}};
  std::size_t i = from.extents.size(), j = to.extents.size();
  std::int64_t left_i = 1, left_j = 1, step_i = 0, step_j = 0;
  while (true) {
    while (left_i == 1 && i > 0) left_i = from.extents[--i], step_i = from.strides[0][i];
    while (left_j == 1 && j > 0) left_j = to.extents[--j], step_j = to.strides[0][j];
    const std::int64_t both = std::min(left_i, left_j);
    if (both == 1) break;
    if (left_i % both != 0 || left_j % both != 0) return std::nullopt;
    result.extents.insert(result.extents.begin(), both);
    result.strides[0].insert(result.strides[0].begin(), step_i);
    result.strides[1].insert(result.strides[1].begin(), step_j);
    left_i /= both, left_j /= both, step_i *= both, step_j *= both;
  }
  return result;
}

}  // namespace

KernelText move_kernel(std::string_view name, std::size_t bytes) {
  if (name == "transpose") {
    static const std::string transposes = source_of_transposes();
    return {transposes, fmt::format("unisono_transpose_{}", bytes)};
  }
  static const std::string source = source_of_moves();
  return {source, fmt::format("unisono_{}_{}", name, bytes)};
}

std::uint64_t filled_with(double value, DType memory) {
  std::uint64_t word = 0;
  const auto put = [&](auto x) { std::memcpy(&word, &x, sizeof x); };
  switch (memory) {
    case DType::f64: put(value); break;
    case DType::f32: put(static_cast<float>(value)); break;
    case DType::bf16: put(support::float_to_bf16(static_cast<float>(support::round_to(value, memory)))); break;
    case DType::f16: put(support::float_to_f16(static_cast<float>(support::round_to(value, memory)))); break;
    case DType::u64: put(static_cast<std::uint64_t>(value)); break;
    default: put(static_cast<std::int64_t>(value));  // the low bytes are those of any integer
  }
  std::uint64_t repeated = 0;
  const std::size_t bits = 8 * size_of(memory);
  if (bits < 64) word &= (std::uint64_t{1} << bits) - 1;
  for (std::size_t at = 0; at < 64; at += bits) repeated |= word << at;
  return repeated;
}

plan::Expected<Launches> move(const StridedTensor& x, const StridedTensor& to) {
  if (x.type.memory == to.type.memory) return take(x, to, {});
  const StridedTensor tensors[] = {x, to};
  return map({{x.type}, {}, {{0, to.type}}}, tensors);
}

plan::Expected<Launches> take(const StridedTensor& x, const StridedTensor& to, const std::vector<PlaceTable>& tables,
                              std::uint64_t fill) {
  require_one_type(x, to);
  if (element_count(to.shape) == 0) return Launches{};
  Kept kept{.order_of = 1};
  for (const PlaceTable& table : tables) kept.axes.push_back(!table.empty());
  const Extents from = tables.empty() ? broadcast(x, to.shape).strides : x.strides;
  std::vector<std::size_t> axes;
  Walk walk = collapse({to.shape, {from, to.strides}}, kept, &axes);
  const auto has_table = [&](std::size_t axis) { return axes[axis] < tables.size() && !tables[axes[axis]].empty(); };

  const WordRule rule{.moved = {0, 1},
                      .starts = {x.offset, to.offset},
                      .element_bytes = size_of(to.type.memory),
                      .alignment = std::min(x.alignment, to.alignment)};
  if (std::all_of(tables.begin(), tables.end(), [](const PlaceTable& t) { return t.empty(); }))
    if (const auto across = axis_across(walk)) return transpose(x, to, walk, *across);
  const std::int64_t elements = has_table(walk.extents.size() - 1) ? 1 : elements_of_word(walk, rule);
  count_in_words(walk, rule, elements);
  const auto space = index_space(walk.extents);
  if (!space) return space.refusal();
  MoveParams p{};
  p.space = *space, p.fill = fill;
  set_strides(p.from.strides, walk.strides[0]), set_strides(p.to.strides, walk.strides[1]);
  const std::int64_t bytes = elements * bytes_of(to);
  Launches launches;
  Launch launch =
      launch_of(move_kernel("move", static_cast<std::size_t>(bytes)), space->count, p, in_words("moved", bytes));
  add_address(launch, offsetof(MoveParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(MoveParams, to), writes(1, start_of(to)));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!has_table(i)) continue;
    add_address(launch, offsetof(MoveParams, tables) + i * sizeof(const int*),
                {.of = Address::Of::table, .number = launches.tables.size()});
    launches.tables.push_back(tables[axes[i]]);
  }
  launches.list.push_back(std::move(launch));
  return launches;
}

plan::Expected<Launches> reorder(const StridedTensor& x, const StridedTensor& to) {
  require_one_type(x, to);
  if (element_count(to.shape) == 0) return Launches{};
  const Walk from = collapse({x.shape, {x.strides}}), target = collapse({to.shape, {to.strides}});
  const auto common = common_walk(from, target);
  if (common && collapse(*common).extents.size() <= kTensorAxes) {  // a move, which finds the better order
    StridedTensor source = x, result = to;
    source.shape = result.shape = common->extents;
    source.strides = common->strides[0], result.strides = common->strides[1];
    return take(source, result, {});
  }
  const auto from_space = index_space(from.extents), to_space = index_space(target.extents);
  if (!from_space) return from_space.refusal();
  if (!to_space) return to_space.refusal();
  ReorderParams p{};
  p.from_space = *from_space, p.to_space = *to_space;
  set_strides(p.from.strides, from.strides[0]), set_strides(p.to.strides, target.strides[0]);
  Launch launch = launch_of(move_kernel("reorder", size_of(to.type.memory)), to_space->count, p,
                            in_words("reordered", bytes_of(to)));
  add_address(launch, offsetof(ReorderParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(ReorderParams, to), writes(1, start_of(to)));
  return Launches{{std::move(launch)}, {}, 0};
}

plan::Expected<Launches> triangle(const operators::Triangle& op, const StridedTensor& x, const StridedTensor& to) {
  require_one_type(x, to);
  if (element_count(to.shape) == 0) return Launches{};
  const std::size_t rank = to.shape.size();
  Kept kept{.order_of = 1, .axes = std::vector<bool>(rank, false)};
  kept.axes[rank - 2] = kept.axes[rank - 1] = true;
  std::vector<std::size_t> axes;
  const Walk walk = collapse({to.shape, {x.strides, to.strides}}, kept, &axes);
  const auto space = index_space(walk.extents);
  if (!space) return space.refusal();
  const auto place_of = [&](std::size_t axis) {
    return static_cast<int>(std::find(axes.begin(), axes.end(), axis) - axes.begin());
  };
  TriangleParams p{};
  p.space = *space, p.upper = op.upper ? 1 : 0, p.diagonal = op.diagonal;
  p.row_axis = place_of(rank - 2), p.column_axis = place_of(rank - 1);
  set_strides(p.from.strides, walk.strides[0]), set_strides(p.to.strides, walk.strides[1]);
  Launch launch =
      launch_of(move_kernel("triangle", size_of(to.type.memory)), space->count, p, in_words("triangle", bytes_of(to)));
  add_address(launch, offsetof(TriangleParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(TriangleParams, to), writes(1, start_of(to)));
  return Launches{{std::move(launch)}, {}, 0};
}

plan::Expected<Launches> range(const StridedTensor& to) {
  if (element_count(to.shape) == 0) return Launches{};
  RangeParams p{};
  p.stride = to.strides[0], p.count = static_cast<u64>(to.shape[0]);
  Launch launch = launch_of(move_kernel("range", 8), to.shape[0], p, "places");
  add_address(launch, offsetof(RangeParams, to), writes(0, start_of(to)));
  return Launches{{std::move(launch)}, {}, 0};
}

}  // namespace unisono::tensors
