/// Scatters: x is copied to the result, and updates are written over it or joined with it.

#include <fmt/format.h>

#include <algorithm>

#include "tensors/indexed.hpp"
#include "tensors/moves.hpp"
#include "tensors/named.hpp"
#include "tensors/text.hpp"
#include "tensors/walk.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

using Of = Address::Of;

// What updates are, axis by axis. An axis of `along` is one of the tuples of indices, or that which indices name a
// place on; the others are those of lines, or of a slice.
struct Updates {
  Extents shape;
  std::vector<bool> along;
  Extents indices, updates, to;  // strides; 0 where such an axis does not move in `to`
  Extents slots, numbers;        // strides that number places, and updates that may meet at one
  NamedAxes named{};
  std::int64_t places = 0, line_places = 0;  // that can be named, in all and in a line
  bool by_slice = false;                     // a tuple's updates meet those of another all or none
};

// The axes that are, or are not, `along`
Walk part_of(const Updates& u, bool along, const std::vector<const Extents*>& strides) {
  Walk part{{}, std::vector<Extents>(strides.size())};
  for (std::size_t i = 0; i < u.shape.size(); ++i) {
    if (u.along[i] != along) continue;
    part.extents.push_back(u.shape[i]);
    for (std::size_t t = 0; t < strides.size(); ++t) part.strides[t].push_back((*strides[t])[i]);
  }
  return part;
}

Updates updates_of(const operators::ScatterElements& op, const Scattered& s) {
  const auto axis = static_cast<std::size_t>(op.axis);
  Updates u;
  u.shape = s.indices.shape, u.along.assign(u.shape.size(), false), u.along[axis] = true;
  u.indices = s.indices.strides, u.updates = s.updates.strides, u.to = s.to.strides;
  u.slots = row_major_strides(s.to.shape), u.numbers = row_major_strides(u.shape);
  u.named = named_axes(s.to, axis, 1, s.indices, 0);
  u.named.slots[0] = u.slots[axis];
  u.to[axis] = u.slots[axis] = 0;
  u.places = element_count(s.to.shape), u.line_places = s.to.shape[axis];
  return u;
}

Updates updates_of(const operators::ScatterND&, const Scattered& s) {
  const std::size_t tuples = s.indices.shape.size() - 1, rank = s.updates.shape.size();
  const auto count = static_cast<std::size_t>(s.indices.shape.back());
  Updates u;
  u.shape = s.updates.shape, u.along.assign(tuples, true), u.along.resize(rank, false);
  u.indices.assign(s.indices.strides.begin(), s.indices.strides.end() - 1), u.indices.resize(rank, 0);
  u.updates = s.updates.strides;
  u.to.assign(tuples, 0);
  u.to.insert(u.to.end(), s.to.strides.begin() + static_cast<std::ptrdiff_t>(count), s.to.strides.end());
  u.slots.assign(rank, 0);
  u.numbers = row_major_strides({s.indices.shape.begin(), s.indices.shape.end() - 1}), u.numbers.resize(rank, 0);
  u.named = named_axes(s.to, 0, count, s.indices, s.indices.strides.back());
  u.places = 1;
  for (std::size_t d = 0; d < count; ++d) u.places *= s.to.shape[d];
  u.line_places = u.places, u.by_slice = true;
  return u;
}

// The launch of a kernel over ScatterParams
plan::Expected<Launch> placed(const Walk& walk, const NamedAxes& named, const Scattered& s, KernelText text,
                              std::string how) {
  const auto space = index_space(walk.extents);
  if (!space) return space.refusal();
  ScatterParams p{};
  p.space = *space, p.named = named;
  set_strides(p.indices.strides, walk.strides[0]), set_strides(p.slots.strides, walk.strides[1]);
  set_strides(p.numbers.strides, walk.strides[2]);
  if (walk.strides.size() > 3)
    set_strides(p.updates.strides, walk.strides[3]), set_strides(p.to.strides, walk.strides[4]);
  Launch launch = launch_of(std::move(text), space->count, p, std::move(how));
  add_address(launch, offsetof(ScatterParams, indices), reads(1, start_of(s.indices)));
  add_address(launch, offsetof(ScatterParams, slots), {.of = Of::scratch, .read = true, .written = true});
  add_report(launch, offsetof(ScatterParams, faults));
  return launch;
}

// Places are cleared, claimed by the last of the updates for them, and written by those that have won
plan::Expected<Launches> replaced(Updates u, const Scattered& s) {
  Launches launches;
  launches.scratch_bytes = static_cast<std::size_t>(u.places) * sizeof(u32);
  Launch clear = launch_of(indexed_kernel("clear", 0), u.places, ClearParams{nullptr, static_cast<u64>(u.places)},
                           "places cleared");
  add_address(clear, offsetof(ClearParams, memory), {.of = Of::scratch, .read = false, .written = true});

  Walk claims{u.shape, {u.indices, u.slots, u.numbers}};
  if (u.by_slice) claims = part_of(u, true, {&u.indices, &u.slots, &u.numbers});
  auto claim =
      placed(collapse(claims), u.named, s, indexed_kernel("claim", 0), "places claimed by the last update for each");
  if (!claim) return claim.refusal();

  Walk walk = collapse({u.shape, {u.indices, u.slots, u.numbers, u.updates, u.to}}, {.order_of = 3});
  WordRule rule{.moved = {3, 4},
                .starts = {s.updates.offset, s.to.offset},
                .element_bytes = size_of(s.to.type.memory),
                .alignment = std::min(s.updates.alignment, s.to.alignment)};
  rule.starts.insert(rule.starts.end(), u.named.strides, u.named.strides + u.named.count);
  const std::int64_t elements = elements_of_word(walk, rule);
  count_in_words(walk, rule, elements), count_in_words(u.named, elements);
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(s.to.type.memory);
  auto write = placed(walk, u.named, s, indexed_kernel("scatter", bytes),
                      fmt::format("updates written, words of {} bytes", bytes));
  if (!write) return write.refusal();
  add_address(*write, offsetof(ScatterParams, updates), reads(2, start_of(s.updates)));
  add_address(*write, offsetof(ScatterParams, to), updates(3, start_of(s.to)));
  launches.list = {std::move(clear), *std::move(claim), *std::move(write)};
  return launches;
}

std::string_view join_of(ScatterReduction reduction) {
  switch (reduction) {
    case ScatterReduction::add: return "JoinSum";
    case ScatterReduction::mul: return "JoinProduct";
    case ScatterReduction::min: return "JoinLesser";
    default: return "JoinGreater";
  }
}

KernelText lines_kernel(DType to, DType updates, ScatterReduction reduction) {
  const std::string function =
      fmt::format("scatter_lines<{}, {}, {}>", tag_of(to), tag_of(updates), join_of(reduction));
  return {"// Updates joined with elements that indices name.\n#include <unisono/tensor/scatter_lines.cuh>\n" +
              kernel_text("unisono_scatter_lines", "ScatterLinesParams", function),
          "unisono_scatter_lines"};
}

constexpr std::int64_t wanted_owners = 65536;

// Joined one by one with what is in `to`: tensor 3, or scratch
plan::Expected<Launches> joined(const Updates& u, const Scattered& s, ScatterReduction reduction, const Address& to) {
  const Walk lines = collapse(part_of(u, false, {&u.indices, &u.updates, &u.to}), {.order_of = 2});
  const Walk steps = collapse(part_of(u, true, {&u.indices, &u.updates}));  // in their order
  const auto lines_space = index_space(lines.extents), steps_space = index_space(steps.extents);
  if (!lines_space) return lines_space.refusal();
  if (!steps_space) return steps_space.refusal();
  ScatterLinesParams p{};
  p.lines = *lines_space, p.steps = *steps_space, p.named = u.named;
  if (u.named.count == 1) p.named.slots[0] = 1;  // within a line
  set_strides(p.indices.strides, lines.strides[0]), set_strides(p.updates.strides, lines.strides[1]);
  set_strides(p.to.strides, lines.strides[2]);
  set_strides(p.index_steps, steps.strides[0]), set_strides(p.update_steps, steps.strides[1]);
  const std::int64_t owners =
      std::clamp<std::int64_t>(wanted_owners / p.lines.count, 1, std::max<std::int64_t>(u.line_places, 1));
  p.owners = static_cast<u32>(owners);
  Launch launch = launch_of(lines_kernel(s.to.type.memory, s.updates.type.memory, reduction), owners * p.lines.count, p,
                            fmt::format("a thread joins up to {} updates, one by one", p.steps.count));
  add_address(launch, offsetof(ScatterLinesParams, indices), reads(1, start_of(s.indices)));
  add_address(launch, offsetof(ScatterLinesParams, updates), reads(2, start_of(s.updates)));
  add_address(launch, offsetof(ScatterLinesParams, to), to);
  add_report(launch, offsetof(ScatterLinesParams, faults));
  return Launches{{std::move(launch)}, {}, 0};
}

// All that is ahead of the updates: x in the result
plan::Expected<Launches> begun(const Scattered& s, const StridedTensor& to, const Address& target) {
  Launches launches;
  auto copy = move(s.x, to);
  if (!copy) return copy;
  append(launches, *std::move(copy), {reads(0), target});
  return launches;
}

// Sums and products of short floats are kept in float32 until all updates are in
template <class Op>
plan::Expected<Launches> joined_in_scratch(const Op& op, Scattered s) {
  const StridedTensor result = s.to;
  const Address scratch{.of = Of::scratch, .read = true, .written = true};
  s.to.type = stored(DType::f32), s.to.strides = row_major_strides(s.to.shape), s.to.offset = 0, s.to.alignment = 16;
  auto launches = begun(s, s.to, scratch);
  if (!launches) return launches;
  launches->scratch_bytes = static_cast<std::size_t>(element_count(s.to.shape)) * sizeof(float);
  auto updated = joined(updates_of(op, s), s, op.reduction, scratch);
  if (!updated) return updated;
  append(*launches, *std::move(updated), {reads(0), reads(1), reads(2), writes(3)});
  auto back = move(s.to, result);
  if (!back) return back;
  append(*launches, *std::move(back), {scratch, writes(3)});
  return launches;
}

template <class Op>
plan::Expected<Launches> scattered(const Op& op, const Scattered& s) {
  if (s.indices.shape.empty() || element_count(s.to.shape) == 0) return Launches{};
  const bool updates_any = element_count(s.updates.shape) != 0;
  const bool joins = op.reduction != ScatterReduction::none;
  if (updates_any && joins && s.to.type.memory != s.to.type.value) return joined_in_scratch(op, s);
  Launches launches;
  if (!s.in_place) {
    auto copy = begun(s, s.to, writes(3));
    if (!copy) return copy;
    launches = *std::move(copy);
  }
  if (!updates_any) return launches;
  const Updates u = updates_of(op, s);
  auto more = joins ? joined(u, s, op.reduction, updates(3, start_of(s.to))) : replaced(u, s);
  if (!more) return more;
  launches.scratch_bytes = more->scratch_bytes, more->scratch_bytes = 0;
  append(launches, *std::move(more), {reads(0), reads(1), reads(2), updates(3)});
  return launches;
}

}  // namespace

plan::Expected<Launches> scatter_elements(const operators::ScatterElements& op, const Scattered& tensors) {
  return scattered(op, tensors);
}

plan::Expected<Launches> scatter_nd(const operators::ScatterND& op, const Scattered& tensors) {
  const auto count = static_cast<std::size_t>(tensors.indices.shape.back());
  if (count > kTensorAxes) return plan::because(fmt::format("rank: tuples of {} indices", count));
  return scattered(op, tensors);
}

}  // namespace unisono::tensors
