#include <fmt/format.h>

#include <algorithm>

#include "tensors/indexed.hpp"
#include "tensors/named.hpp"
#include "tensors/walk.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

using Difference = std::ptrdiff_t;

// How the result's indices walk over x and over the indices
struct Gathered {
  Extents x, indices;
  NamedAxes named;
};

plan::Expected<Launches> gathered(Gathered g, const StridedTensor& x, const StridedTensor& indices,
                                  const StridedTensor& to) {
  if (x.type.memory != to.type.memory) throw InternalError("a gather of one type into another");
  if (element_count(to.shape) == 0) return Launches{};
  Walk walk = collapse({to.shape, {std::move(g.x), std::move(g.indices), to.strides}}, {.order_of = 2});
  WordRule rule{.moved = {0, 2},
                .starts = {x.offset, to.offset},
                .element_bytes = size_of(to.type.memory),
                .alignment = std::min(x.alignment, to.alignment)};
  rule.starts.insert(rule.starts.end(), g.named.strides, g.named.strides + g.named.count);
  const std::int64_t elements = elements_of_word(walk, rule);
  count_in_words(walk, rule, elements), count_in_words(g.named, elements);
  const auto space = index_space(walk.extents);
  if (!space) return space.refusal();
  GatherParams p{};
  p.space = *space, p.named = g.named;
  set_strides(p.from.strides, walk.strides[0]), set_strides(p.indices.strides, walk.strides[1]);
  set_strides(p.to.strides, walk.strides[2]);
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(to.type.memory);
  Launch launch =
      launch_of(indexed_kernel("gather", bytes), space->count, p, fmt::format("gathered, words of {} bytes", bytes));
  add_address(launch, offsetof(GatherParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(GatherParams, indices), reads(1, start_of(indices)));
  add_address(launch, offsetof(GatherParams, to), writes(2, start_of(to)));
  add_report(launch, offsetof(GatherParams, faults));
  return Launches{{std::move(launch)}, {}, 0};
}

}  // namespace

plan::Expected<Launches> gather(int axis, const StridedTensor& x, const StridedTensor& indices,
                                const StridedTensor& to) {
  const auto a = static_cast<std::size_t>(axis);
  Gathered g{x.strides, Extents(x.shape.size() - 1, 0), named_axes(x, a, 1, indices, 0)};
  g.x.erase(g.x.begin() + axis);
  g.x.insert(g.x.begin() + axis, indices.shape.size(), 0);
  g.indices.insert(g.indices.begin() + axis, indices.strides.begin(), indices.strides.end());
  return gathered(std::move(g), x, indices, to);
}

plan::Expected<Launches> gather_elements(int axis, const StridedTensor& x, const StridedTensor& indices,
                                         const StridedTensor& to) {
  const auto a = static_cast<std::size_t>(axis);
  Gathered g{x.strides, indices.strides, named_axes(x, a, 1, indices, 0)};
  g.x[a] = 0;
  return gathered(std::move(g), x, indices, to);
}

plan::Expected<Launches> gather_nd(int batch, const StridedTensor& x, const StridedTensor& indices,
                                   const StridedTensor& to) {
  const auto b = static_cast<std::size_t>(batch), count = static_cast<std::size_t>(indices.shape.back());
  if (count > kTensorAxes) return plan::because(fmt::format("rank: tuples of {} indices", count));
  const std::size_t tuples = indices.shape.size() - 1;
  Gathered g{Extents(tuples, 0), Extents(indices.strides.begin(), indices.strides.end() - 1),
             named_axes(x, b, count, indices, indices.strides.back())};
  std::copy_n(x.strides.begin(), b, g.x.begin());
  g.x.insert(g.x.end(), x.strides.begin() + static_cast<Difference>(b + count), x.strides.end());
  g.indices.resize(g.x.size(), 0);
  return gathered(std::move(g), x, indices, to);
}

}  // namespace unisono::tensors
