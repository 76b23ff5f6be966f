#include "tensors/lines.hpp"

#include <fmt/format.h>

#include "tensors/named.hpp"
#include "tensors/text.hpp"
#include "tensors/walk.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

constexpr std::int64_t lanes = 32, many_lines = 4096;
constexpr double most_comparisons = 0x1p41;  // about a second

// All axes but one
Walk lines_of(int axis, const StridedTensor& x, const StridedTensor& to) {
  Walk lines{to.shape, {x.strides, to.strides}};
  lines.extents.erase(lines.extents.begin() + axis);
  for (Extents& s : lines.strides) s.erase(s.begin() + axis);
  return collapse(lines, {.order_of = 1});
}

KernelText line_kernel(std::string_view entry, std::string_view parameters, const std::string& function) {
  return {
      "// Along lines of tensors.\n#include <unisono/tensor/lines.cuh>\n" + kernel_text(entry, parameters, function),
      std::string(entry)};
}

}  // namespace

plan::Expected<Launches> cumulative_sum(const operators::CumulativeSum& op, const StridedTensor& x,
                                        const StridedTensor& to) {
  if (x.type.memory != to.type.memory) throw InternalError("running sums of one type in another");
  if (element_count(to.shape) == 0) return Launches{};
  const auto a = static_cast<std::size_t>(op.axis);
  const Walk lines = lines_of(op.axis, x, to);
  const auto space = index_space(lines.extents), along = index_space({x.shape[a]});
  if (!space) return space.refusal();
  if (!along) return along.refusal();
  ScanParams p{};
  p.lines = *space, p.length = along->count;
  set_strides(p.from.strides, lines.strides[0]), set_strides(p.to.strides, lines.strides[1]);
  p.from_step = x.strides[a], p.to_step = to.strides[a];
  p.exclusive = op.exclusive ? 1 : 0, p.reverse = op.reverse ? 1 : 0;
  const bool by_warp = p.length >= lanes && (p.from_step == 1 || p.lines.count < many_lines);
  const std::int64_t threads = by_warp ? lanes : 1;
  const std::string call = fmt::format("running_sums<{}, {}>", tag_of(to.type.memory), threads);
  Launch launch = launch_of(line_kernel("unisono_running_sums", "ScanParams", call), threads * p.lines.count, p,
                            by_warp ? "a warp a line" : "a thread a line");
  add_address(launch, offsetof(ScanParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(ScanParams, to), writes(1, start_of(to)));
  return Launches{{std::move(launch)}, {}, 0};
}

plan::Expected<Launches> top_k(const operators::TopK& op, const StridedTensor& x, const StridedTensor& to) {
  if (element_count(to.shape) == 0) return Launches{};
  const auto a = static_cast<std::size_t>(op.axis);
  const Walk lines = lines_of(op.axis, x, to);
  const auto space = index_space(lines.extents), along = index_space({x.shape[a]});
  if (!space) return space.refusal();
  if (!along) return along.refusal();
  const double elements = static_cast<double>(space->count) * along->count;
  if (elements * along->count > most_comparisons)
    return plan::because(fmt::format("size: {} lines of {} elements, where each is compared with all others",
                                     space->count, along->count));
  TopParams p{};
  p.lines = *space, p.length = along->count, p.kept = static_cast<u32>(to.shape[a]), p.smallest = op.smallest ? 1 : 0;
  set_strides(p.from.strides, lines.strides[0]), set_strides(p.to.strides, lines.strides[1]);
  p.from_step = x.strides[a], p.to_step = to.strides[a];
  const std::string function = fmt::format("top<{}>", tag_of(x.type.memory));
  Launch launch = launch_of(line_kernel("unisono_top", "TopParams", function), static_cast<std::int64_t>(elements), p,
                            fmt::format("a thread an element, {} comparisons", along->count));
  add_address(launch, offsetof(TopParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(TopParams, to), writes(1, start_of(to)));
  return Launches{{std::move(launch)}, {}, 0};
}

}  // namespace unisono::tensors
