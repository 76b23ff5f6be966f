#include "runtime/common/views.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>

#include "unisono/error.hpp"

namespace unisono::runtime {

std::string shape_string(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ",")); }

std::vector<std::int64_t> checked_strides(const ConstTensorView& view, const std::vector<std::int64_t>& shape,
                                          std::span<const DType> dtypes, const std::string& what, Strides allowed) {
  if (view.data == nullptr && view.shape.empty() && !shape.empty())
    throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {}", what, shape_string(shape),
                                to_string(dtypes.front())));
  if (view.shape != shape)
    throw UserError(
        fmt::format("{} was given shape {}; expected {}", what, shape_string(view.shape), shape_string(shape)));
  if (std::find(dtypes.begin(), dtypes.end(), view.dtype) == dtypes.end()) {
    std::vector<std::string_view> names;
    for (const DType t : dtypes) names.push_back(to_string(t));
    throw UserError(
        fmt::format("{} was given dtype {}; expected {}", what, to_string(view.dtype), fmt::join(names, " or ")));
  }
  if (!view.data && element_count(shape) != 0) throw UserError(fmt::format("{} was given a null pointer", what));
  if (view.strides.empty()) return row_major_strides(shape);
  if (view.strides.size() != shape.size())
    throw UserError(
        fmt::format("{} was given {} strides for shape {}; expected one for each extent, or none for a dense "
                    "tensor",
                    what, view.strides.size(), shape_string(shape)));
  for (const auto s : view.strides)
    if (s < 0 && allowed == Strides::forward)
      throw UserError(fmt::format("{} was given strides {}; expected none below 0", what, shape_string(view.strides)));
  std::int64_t reach = 1, bytes = 0;
  bool fits = true;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t step = 0;
    fits = fits && !__builtin_mul_overflow(std::max<std::int64_t>(shape[i] - 1, 0), view.strides[i], &step) &&
           step != std::numeric_limits<std::int64_t>::min() && !__builtin_add_overflow(reach, std::abs(step), &reach);
  }
  // four times: sums of what two views reach must fit, too
  if (!fits || __builtin_mul_overflow(reach, static_cast<std::int64_t>(4 * size_of(view.dtype)), &bytes))
    throw UserError(fmt::format("{} was given strides {} for shape {}; no memory reaches that far", what,
                                shape_string(view.strides), shape_string(shape)));
  return view.strides;
}

void check_distinct(const ConstTensorView& view, const std::vector<std::int64_t>& strides, const std::string& what) {
  if (element_count(view.shape) == 0) return;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (view.shape[i] > 1) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return strides[x] < strides[y]; });
  std::int64_t reach = 0;  // last element of the dimensions so far
  for (const std::size_t i : order) {
    if (strides[i] <= reach)
      throw UserError(fmt::format("{} was given strides {} for shape {}: its elements overlap, so it cannot be written",
                                  what, shape_string(strides), shape_string(view.shape)));
    reach += (view.shape[i] - 1) * strides[i];
  }
}

ByteRange byte_range(const ConstTensorView& view, const std::vector<std::int64_t>& strides) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) last += (view.shape[i] - 1) * strides[i];
  const auto* first = static_cast<const std::byte*>(view.data);
  return {first, first + (last + 1) * static_cast<std::int64_t>(size_of(view.dtype))};
}

namespace {

// `stride` bytes, `least` to `most` times
struct Steps {
  std::int64_t stride, least, most;
};

void add(std::vector<Steps>& all, std::int64_t stride, std::int64_t least, std::int64_t most) {
  const auto same = std::find_if(all.begin(), all.end(), [&](const Steps& s) { return s.stride == stride; });
  if (same == all.end()) return all.push_back({stride, least, most});
  same->least += least, same->most += most;
}

std::int64_t divided_down(std::int64_t x, std::int64_t by) { return x / by - (x % by < 0 ? 1 : 0); }

// Whether steps add up to something from `least` to `most`; true, too, when it has looked at `left` sums. `steps`: by
// stride, the longest first.
bool can_reach(std::span<const Steps> steps, std::int64_t least, std::int64_t most, int& left) {
  if (steps.empty()) return least <= 0 && most >= 0;
  std::int64_t back = 0, ahead = 0;  // what the shorter steps reach
  for (const Steps& s : steps.subspan(1)) back += s.stride * s.least, ahead += s.stride * s.most;
  const Steps& s = steps.front();
  const std::int64_t first = std::max(s.least, -divided_down(ahead - least, s.stride));
  const std::int64_t last = std::min(s.most, divided_down(most - back, s.stride));
  for (std::int64_t i = first; i <= last; ++i)
    if (--left < 0 || can_reach(steps.subspan(1), least - i * s.stride, most - i * s.stride, left)) return true;
  return false;
}

constexpr int most_sums = 10'000;

}  // namespace

bool may_overlap(const ConstTensorView& x, const std::vector<std::int64_t>& x_strides, const ConstTensorView& y,
                 const std::vector<std::int64_t>& y_strides) {
  if (element_count(x.shape) == 0 || element_count(y.shape) == 0) return false;
  const ByteRange a = byte_range(x, x_strides), b = byte_range(y, y_strides);
  const std::less<const std::byte*> before;
  if (!before(a.first, b.last) || !before(b.first, a.last)) return false;
  const auto x_size = static_cast<std::int64_t>(size_of(x.dtype)), y_size = static_cast<std::int64_t>(size_of(y.dtype));
  std::vector<Steps> steps;
  for (std::size_t i = 0; i < x_strides.size(); ++i)
    if (x_strides[i] != 0 && x.shape[i] > 1) add(steps, x_strides[i] * x_size, 1 - x.shape[i], 0);
  for (std::size_t i = 0; i < y_strides.size(); ++i)
    if (y_strides[i] != 0 && y.shape[i] > 1) add(steps, y_strides[i] * y_size, 0, y.shape[i] - 1);
  std::sort(steps.begin(), steps.end(), [](const Steps& s, const Steps& t) { return s.stride > t.stride; });
  // y's element begins less than x's size after x's, or less than its own size ahead of it
  const std::int64_t apart = static_cast<const std::byte*>(y.data) - static_cast<const std::byte*>(x.data);
  int left = most_sums;
  return can_reach(steps, 1 - y_size - apart, x_size - 1 - apart, left);
}

void check_apart(std::span<const Written> outputs) {
  for (const Written& o : outputs) check_distinct(o.view, o.strides, o.what);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t j = i + 1; j < outputs.size(); ++j)
      if (may_overlap(outputs[i].view, outputs[i].strides, outputs[j].view, outputs[j].strides))
        throw UserError(fmt::format("{} and {} share memory; give each its own", outputs[i].what, outputs[j].what));
}

}  // namespace unisono::runtime
