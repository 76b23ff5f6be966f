/// Attention by cuDNN, where it is asked for, or faster, and serves.

#include <fmt/format.h>

#include <algorithm>

#include "network/cuda/decide/attention_operands.hpp"
#include "network/cuda/decide/passes.hpp"
#include "network/dim.hpp"
#include "network/names.hpp"
#include "runtime/cuda/cudnn_attention.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

constexpr float hidden = -1e30F;  // and below: an element of a mask that leaves its key no weight

enum Operand : std::size_t { q, k, v, y, first_mask };

// One axis of the batch: how far apart its matrices are in each operand
struct BatchAxis {
  std::int64_t extent = 1;
  std::vector<std::int64_t> strides;
};

// Whether a step along `outer` is as many along `inner` as that has, in these operands
template <class Which>
bool continues(const BatchAxis& outer, const BatchAxis& inner, const Which& which) {
  for (std::size_t o = 0; o < inner.strides.size(); ++o)
    if (which(o) && outer.strides[o] != inner.strides[o] * inner.extent) return false;
  return true;
}

class CudnnProblem {
 public:
  CudnnProblem(const PlanningInput& in, const Operator& op)
      : in_(in), op_(op), operands_(attention_operands(in, op)), p_(operands_.problem.extents) {}

  plan::Expected<cudnn::AttentionProblem> run();
  bool faster() const;

 private:
  std::optional<Refusal> refuse_operands() const;
  std::optional<Refusal> refuse_masks() const;
  std::vector<BatchAxis> joined_axes() const;
  std::optional<Refusal> divide_batches();
  bool hides(std::size_t mask, bool whole_rows) const;
  const BatchedMatrix& matrix(std::size_t operand) const {
    const BatchedMatrix* const all[] = {&p_.q, &p_.k, &p_.v, &p_.y};
    return operand < first_mask ? *all[operand] : p_.masks[operand - first_mask].values;
  }
  std::size_t operands() const { return first_mask + masks(); }
  std::size_t masks() const { return static_cast<std::size_t>(operands_.problem.masks); }
  cudnn::Matrices matrices(std::size_t operand, std::int64_t rows, std::int64_t columns) const;

  const PlanningInput& in_;
  const Operator& op_;
  AttentionOperands operands_;
  const AttentionParams& p_;
  BatchAxis images_, heads_, key_heads_;
};

std::optional<Refusal> CudnnProblem::refuse_operands() const {
  if (p_.guard != kUnguarded) return plan::because("rows without a key are 0 here, and not so by cuDNN");
  if (p_.width % 8 != 0 || p_.value_width % 8 != 0)
    return plan::because(
        fmt::format("heads of {} and {} columns; cuDNN takes multiples of 8", p_.width, p_.value_width));
  for (const std::size_t operand : {q, k, v, y}) {
    const BatchedMatrix& m = matrix(operand);
    const std::int64_t first = operands_.placed[operand == y ? operands_.placed.size() - 1 : operand].first;
    if (!products::lies_together(m, first, m.row, m.column))
      return plan::because("rows that are not contiguous at multiples of 16 bytes, which cuDNN does not take");
  }
  return std::nullopt;
}

// Whether a constant mask hides an element, or every element of a row
bool CudnnProblem::hides(std::size_t mask, bool whole_rows) const {
  const BatchedMatrix& m = p_.masks[mask].values;
  const float* const values = in_.net()[op_.inputs[3 + mask]].constant->data() +
                              operands_.placed[3 + mask].first / static_cast<std::int64_t>(sizeof(float));
  std::array<std::int64_t, kBatchAxes + 1> extents{}, strides{};
  for (std::size_t i = 0; i <= kBatchAxes; ++i) {
    strides[i] = i < kBatchAxes ? m.batch[i] : m.row;
    extents[i] = strides[i] == 0 ? 1 : i < kBatchAxes ? p_.batches.extents[i] : p_.queries;
  }
  std::int64_t rows = 1;
  for (const std::int64_t extent : extents) rows *= extent;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t at = 0, rest = row;
    for (std::size_t i = extents.size(); i-- > 0; rest /= extents[i]) at += rest % extents[i] * strides[i];
    std::uint32_t hidden_keys = 0;
    for (std::int64_t key = 0; key < p_.keys; ++key) hidden_keys += values[at + key * m.column] > hidden ? 0 : 1;
    if (whole_rows ? hidden_keys == p_.keys : hidden_keys != 0) return true;
  }
  return false;
}

std::optional<Refusal> CudnnProblem::refuse_masks() const {
  std::size_t hiding = 0;
  for (std::size_t i = 0; i < masks(); ++i) {
    const AttentionMask& mask = p_.masks[i];
    if (mask.replaces != 0) return plan::because("a mask that takes the scores' place, which cuDNN only adds");
    if (!in_.is_constant(op_.inputs[3 + i]))
      return plan::because(
          "a computed mask, which may hide all keys from a query: what cuDNN makes of such a row was not measured");
    if (mask.values.column != 1 && p_.keys != 1)
      return plan::because("a mask whose columns are not contiguous, which cuDNN does not take");
    if (hides(i, true)) return plan::because("a mask that hides all keys from a query, which cuDNN does not define");
    hiding += hides(i, false) ? 1 : 0;
  }
  if (hiding > 1) return plan::because("two masks that together may hide all keys from a query");
  return std::nullopt;
}

// The axes of the batch, fewer where two are one in every operand
std::vector<BatchAxis> CudnnProblem::joined_axes() const {
  std::vector<BatchAxis> axes;
  for (std::size_t i = 0; i < kBatchAxes; ++i) {
    if (p_.batches.extents[i] == 1) continue;
    BatchAxis axis{.extent = p_.batches.extents[i], .strides = {}};
    for (std::size_t o = 0; o < operands(); ++o) axis.strides.push_back(matrix(o).batch[i]);
    if (!axes.empty() && continues(axes.back(), axis, [](std::size_t) { return true; })) {
      axis.extent *= axes.back().extent;
      axes.pop_back();
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

// The batch as images and heads. Keys and values may be shared by heads in a row, and by nothing else
std::optional<Refusal> CudnnProblem::divide_batches() {
  const BatchAxis one{.extent = 1, .strides = std::vector<std::int64_t>(operands(), 0)};
  const auto is_key = [](std::size_t o) { return o == k || o == v; };
  std::vector<BatchAxis> axes = joined_axes();
  const auto last = [&] {
    BatchAxis axis = axes.empty() ? one : axes.back();
    if (!axes.empty()) axes.pop_back();
    return axis;
  };
  heads_ = key_heads_ = last();
  const bool shared = heads_.extent > 1 && heads_.strides[k] == 0 && heads_.strides[v] == 0;
  if (shared) {
    key_heads_ = one;
    if (!axes.empty() && axes.back().strides[k] != 0 &&
        continues(axes.back(), heads_, [&](std::size_t o) { return !is_key(o); })) {
      key_heads_ = last();
      heads_.extent *= key_heads_.extent;
    }
  }
  images_ = last();
  if (!axes.empty()) return plan::because("a batch along more than two axes in memory, which cuDNN does not take");
  for (const std::size_t o : {q, k, v, y})
    if ((images_.extent > 1 && images_.strides[o] == 0) ||
        (heads_.extent > 1 && heads_.strides[o] == 0 && !(shared && is_key(o))))
      return plan::because("queries, keys or values that a batch repeats, which cuDNN does not take");
  return std::nullopt;
}

cudnn::Matrices CudnnProblem::matrices(std::size_t operand, std::int64_t rows, std::int64_t columns) const {
  const BatchedMatrix& m = matrix(operand);
  const bool is_mask = operand >= first_mask, of_keys = operand == k || operand == v;
  cudnn::Matrices made;
  const BatchAxis& heads = of_keys ? key_heads_ : heads_;
  made.extents = {images_.extent, heads.extent, rows, columns};
  made.strides = {images_.strides[operand], heads.strides[operand], m.row, 1};
  made.type = is_mask ? DType::f32 : in_.element;
  for (std::size_t i = 0; is_mask && i < 3; ++i)
    if (made.strides[i] == 0) made.extents[i] = 1;
  for (std::size_t i = 3; i-- > 0;)  // those of extents of 1 are not stepped along: as if what is within filled them
    if (made.extents[i] == 1) made.strides[i] = made.strides[i + 1] * made.extents[i + 1];
  return made;
}

plan::Expected<cudnn::AttentionProblem> CudnnProblem::run() {
  if (auto refused = refuse_operands()) return *std::move(refused);
  if (auto refused = refuse_masks()) return *std::move(refused);
  if (auto refused = divide_batches()) return *std::move(refused);
  cudnn::AttentionProblem made{.q = matrices(q, p_.queries, p_.width),
                               .k = matrices(k, p_.keys, p_.width),
                               .v = matrices(v, p_.keys, p_.value_width),
                               .y = matrices(y, p_.queries, p_.value_width),
                               .biases = {},
                               .scale = static_cast<float>(std::get<operators::Attention>(op_.kind).scale)};
  for (std::size_t i = 0; i < masks(); ++i) made.biases.push_back(matrices(first_mask + i, p_.queries, p_.keys));
  return made;
}

// Whether cuDNN's kernels were measured as faster than ours, within a network on an H200
// (bench/results/attention.json): many keys, heads of 64 or 128 columns: ours take 1.09 to 1.14 of their time. Of
// others ours are mostly faster. Nothing was measured with masks.
bool CudnnProblem::faster() const {
  constexpr std::int64_t many = 512;
  return cudnn::attention_was_timed(in_.device) && masks() == 0 && p_.queries >= many && p_.keys >= many &&
         p_.width == p_.value_width && (p_.width == 64 || p_.width == 128);
}

AttentionPlan plan_of(const PlanningInput& in, const cudnn::Library& library, const Operator& op) {
  auto problem = CudnnProblem(in, op).run();
  if (!problem) return {.not_cudnn = std::move(problem).refusal()};
  auto made = in.gpu ? cuda::plan_attention(*in.gpu, library, *problem)
                     : cudnn::plan_attention(library, *problem, {.described = &in.device});
  if (!made)
    return {.not_cudnn = plan::because(fmt::format("cuDNN {}: {}", library.version_text(), made.refusal().first()))};
  return {.cudnn = *std::move(made)};
}

// By itself: a cuDNN that does not start, as one that lacks a part of it, is no reason to fail
AttentionPlan plan_unasked(const PlanningInput& in, const cudnn::Library& library, const Operator& op) {
  try {
    return plan_of(in, library, op);
  } catch (const DeviceError& error) {
    return {.not_cudnn = plan::because(fmt::format("measured as faster, but {}", error.what()))};
  }
}

}  // namespace

void choose_attention(const PlanningInput& in, NetworkPlan& plan) {
  if (in.attention == AttentionKernels::own) return;
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    if (!has_kernels(in, plan, i)) continue;
    const Operator& op = in.first(in.region(i));
    if (!std::holds_alternative<operators::Attention>(op.kind)) continue;
    if (in.attention == AttentionKernels::automatic && !CudnnProblem(in, op).faster()) continue;
    const auto library = cudnn::library();
    if (!library && in.attention == AttentionKernels::automatic) {
      plan.regions[i].attention =
          AttentionPlan{.not_cudnn = plan::because("measured as faster, but " + library.refusal().first())};
      continue;
    }
    if (!library)
      throw Unsupported(
          fmt::format("{}: attention by cuDNN is asked for (NetworkOptions::attention, UNISONO_ATTENTION): {}",
                      where(op), library.refusal().first()));
    plan.regions[i].attention =
        in.attention == AttentionKernels::automatic ? plan_unasked(in, **library, op) : plan_of(in, **library, op);
  }
}

}  // namespace unisono::network::gpu
