#include "tensors/walk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace unisono::tensors {

namespace {

constexpr std::int64_t most_indices = (std::int64_t{1} << 31) - 1;  // divisor() and divided()
constexpr std::size_t most_word_bytes = 16;

bool is_kept(const Kept& kept, std::size_t axis) { return axis < kept.axes.size() && kept.axes[axis]; }

std::vector<std::size_t> ordered_axes(const Walk& walk, const Kept& kept) {
  std::vector<std::size_t> order;
  for (std::size_t axis = 0; axis < walk.extents.size(); ++axis)
    if (walk.extents[axis] != 1 || is_kept(kept, axis)) order.push_back(axis);
  if (kept.order_of) {
    const Extents& strides = walk.strides[*kept.order_of];
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t x, std::size_t y) { return std::abs(strides[x]) > std::abs(strides[y]); });
  }
  return order;
}

// Whether the last axis of `walk` and `axis` of `given` behind it are one in all tensors
bool runs_on(const Walk& walk, const Walk& given, std::size_t axis) {
  for (std::size_t t = 0; t < walk.strides.size(); ++t)
    if (walk.strides[t].back() != given.strides[t][axis] * given.extents[axis]) return false;
  return true;
}

}  // namespace

StridedTensor broadcast(StridedTensor x, const Extents& shape) {
  Extents strides(shape.size(), 0);
  const std::size_t ahead = shape.size() - x.shape.size();
  for (std::size_t i = 0; i < x.shape.size(); ++i)
    if (x.shape[i] != 1) strides[ahead + i] = x.strides[i];
  x.shape = shape, x.strides = std::move(strides);
  return x;
}

Walk collapse(const Walk& walk, const Kept& kept, std::vector<std::size_t>* from) {
  Walk result;
  result.strides.resize(walk.strides.size());
  std::vector<std::size_t> origin;
  for (const std::size_t axis : ordered_axes(walk, kept)) {
    const bool joins =
        !origin.empty() && !is_kept(kept, axis) && !is_kept(kept, origin.back()) && runs_on(result, walk, axis);
    if (!joins) {
      origin.push_back(axis), result.extents.push_back(1);
      for (Extents& s : result.strides) s.push_back(0);
    }
    origin.back() = axis, result.extents.back() *= walk.extents[axis];
    for (std::size_t t = 0; t < walk.strides.size(); ++t) result.strides[t].back() = walk.strides[t][axis];
  }
  if (origin.empty()) {
    origin.push_back(0), result.extents.push_back(1);
    for (Extents& s : result.strides) s.push_back(0);
  }
  if (from != nullptr) *from = std::move(origin);
  return result;
}

plan::Expected<IndexSpace> index_space(const Extents& extents) {
  if (extents.size() > kTensorAxes)
    return plan::because(
        fmt::format("rank: {} axes that cannot be joined; kernels have {}", extents.size(), kTensorAxes));
  const std::int64_t count = element_count(extents);
  const std::int64_t longest = *std::max_element(extents.begin(), extents.end());
  if (std::max(count, longest) > most_indices)
    return plan::because(fmt::format("size: {} elements; kernels count to {}", std::max(count, longest), most_indices));
  IndexSpace space{};
  space.axes = static_cast<u32>(extents.size()), space.count = static_cast<u32>(count);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    space.extents[i] = static_cast<u32>(extents[i]);
    space.by[i] = divisor(static_cast<u64>(std::max<std::int64_t>(extents[i], 1)));
  }
  return space;
}

std::int64_t elements_of_word(const Walk& walk, const WordRule& rule) {
  for (std::size_t t = 0; t < walk.strides.size(); ++t) {
    const bool moved = std::find(rule.moved.begin(), rule.moved.end(), t) != rule.moved.end();
    if (walk.strides[t].back() != (moved ? 1 : 0)) return 1;
  }
  const auto fits = [&](std::int64_t elements) {
    const auto whole = [&](std::int64_t x) { return x % elements == 0; };
    if (!whole(walk.extents.back()) || !std::all_of(rule.starts.begin(), rule.starts.end(), whole)) return false;
    return std::all_of(rule.moved.begin(), rule.moved.end(), [&](std::size_t t) {
      return std::all_of(walk.strides[t].begin(), walk.strides[t].end() - 1, whole);
    });
  };
  std::int64_t elements = 1;
  for (std::size_t bytes = 2 * rule.element_bytes; bytes <= std::min(most_word_bytes, rule.alignment); bytes *= 2) {
    if (rule.alignment % bytes != 0 || !fits(2 * elements)) break;
    elements *= 2;
  }
  return elements;
}

void count_in_words(Walk& walk, const WordRule& rule, std::int64_t elements) {
  if (elements == 1) return;
  walk.extents.back() /= elements;
  for (const std::size_t t : rule.moved)
    for (std::size_t i = 0; i + 1 < walk.strides[t].size(); ++i) walk.strides[t][i] /= elements;
}

}  // namespace unisono::tensors
