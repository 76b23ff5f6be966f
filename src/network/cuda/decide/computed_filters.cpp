#include "network/cuda/decide/computed_filters.hpp"

#include <numeric>
#include <utility>

#include "network/cuda/decide/served_convolution.hpp"
#include "tensors/moves.hpp"

namespace unisono::network::gpu {

namespace {

Sizes dense(const Sizes& extents) { return {extents[1] * extents[2], extents[2], 1}; }

// Strides of axes of extent 1 do not matter
bool lies_so(const FilterOrder& o) {
  const Sizes strides = dense(o.extents);
  for (std::size_t i = 0; i < 3; ++i)
    if (o.extents[i] != 1 && o.strides[i] != strides[i]) return false;
  return true;
}

bool lies_packed(const PlanningInput& in, const NetworkPlan& plan, const FilterOrder& o) {
  if (!o.columns.empty() || !lies_so(o) || o.own[0] != o.extents[0]) return false;
  return o.own[2] == o.extents[2] || is_padded_with_zeros(in, plan, o.filter);
}

// Where the channels of each tap of an image row lie
std::vector<int> columns_of_taps(std::int64_t taps, std::int64_t channels, std::int64_t pitch) {
  std::vector<int> places;
  for (std::int64_t i = 0; i < taps * channels; ++i)
    places.push_back(static_cast<int>(i / channels * pitch + i % channels));
  return places;
}

// Where along an axis of the kernel the tensor has its `own` places; empty if that is all
tensors::PlaceTable places(std::int64_t own, std::int64_t extent) {
  if (own == extent) return {};
  tensors::PlaceTable table(static_cast<std::size_t>(extent), -1);
  std::iota(table.begin(), table.begin() + own, 0);
  return table;
}

tensors::StridedTensor strided(DType element, Sizes shape, Sizes strides) {
  return {.type = {DType::f32, element}, .shape = std::move(shape), .strides = std::move(strides)};
}

plan::Expected<tensors::Launches> moves(const FilterOrder& o, DType element) {
  const tensors::StridedTensor to = strided(element, o.extents, dense(o.extents));
  std::vector<tensors::PlaceTable> tables;
  for (std::size_t i = 0; i < 3; ++i) tables.push_back(places(o.own[i], o.extents[i]));
  Sizes own = o.own;
  if (!o.columns.empty()) {
    tables[2] = o.columns, own[2] = o.columns.back() + 1;
    tables[2].resize(static_cast<std::size_t>(o.extents[2]), -1);
  }
  const tensors::StridedTensor x = strided(element, own, o.strides);
  return o.own == o.extents && o.columns.empty() ? tensors::move(x, to) : tensors::take(x, to, tables);
}

FilterOrder order_of_product(const PlanningInput& in, const Operator& op, const Conv2d& padded, bool transposed) {
  FilterOrder o{.filter = op.inputs[1], .extents = {padded.k, 1, padded.c}, .own = {}, .strides = {}, .columns = {}};
  const Sizes& s = in.sizes(o.filter);
  const std::int64_t pitch = in.element_tensor(o.filter).pitch;
  o.own = transposed ? Sizes{s[0], 1, s[1]} : Sizes{s[1], 1, s[0]};
  o.strides = transposed ? Sizes{pitch, pitch, 1} : Sizes{1, 1, pitch};
  return o;
}

}  // namespace

FilterOrder order_of(const PlanningInput& in, const Operator& op, const Contraction& given, const Conv2d& padded,
                     bool im2col) {
  if (const auto* g = std::get_if<Gemm>(&given)) return order_of_product(in, op, padded, g->transpose_b);
  const TensorId filter = op.inputs[1];
  const Sizes& s = in.sizes(filter);
  const std::int64_t pitch = in.element_tensor(filter).pitch, taps = s[2] * s[3];
  if (std::holds_alternative<ConvTranspose2d>(given))
    return {.filter = filter,
            .extents = {padded.c, taps, padded.k},
            .own = {s[0], taps, s[1]},
            .strides = {taps * pitch, pitch, 1},
            .columns = {}};
  if (im2col)
    return {.filter = filter,
            .extents = {padded.k, s[2], padded.c},
            .own = {s[0], s[2], s[3] * s[1]},
            .strides = {taps * pitch, s[3] * pitch, 1},
            .columns = columns_of_taps(s[3], s[1], pitch)};
  return {.filter = filter,
          .extents = {padded.k, taps, one_group(padded).c},
          .own = {s[0], taps, s[1]},
          .strides = {taps * pitch, pitch, 1},
          .columns = {}};
}

bool reads_columns(const PlanningInput& in, const NetworkPlan& plan, const Operator& op, const Conv2d& padded) {
  const auto* product = std::get_if<operators::Gemm>(&op.kind);
  const TensorId matrix = op.inputs[1];
  return product != nullptr && !product->transpose_b && !in.is_constant(matrix) && in.sizes(matrix)[0] == padded.c &&
         in.element_tensor(matrix).pitch == padded.k && is_padded_with_zeros(in, plan, matrix);
}

plan::Expected<TensorLaunches> padded_image(const PlanningInput& in, TensorId image, std::int64_t channels) {
  const Sizes& sizes = in.sizes(image);
  const PitchedTensor from = in.element_tensor(image);
  const std::int64_t own = column_count(sizes), pixels = element_count(sizes) / own;
  const tensors::StridedTensor x = strided(in.element, {pixels, own}, {from.pitch, 1});
  const tensors::StridedTensor to = strided(in.element, {pixels, channels}, {channels, 1});
  auto made = tensors::take(x, to, {{}, places(own, channels)});
  if (!made) return std::move(made).refusal();
  const auto bytes = 2 * static_cast<double>(element_count(sizes));
  return TensorLaunches{*std::move(made),
                        {{from.at, all_of(from, sizes), bytes}, {{}, {}, 2 * static_cast<double>(pixels * channels)}}};
}

plan::Expected<std::optional<TensorLaunches>> packing_of(const PlanningInput& in, const NetworkPlan& plan,
                                                         const FilterOrder& order) {
  if (lies_packed(in, plan, order)) return std::optional<TensorLaunches>{};
  auto made = moves(order, in.element);
  if (!made) return std::move(made).refusal();
  const PitchedTensor from = in.element_tensor(order.filter);
  const auto bytes = 2 * static_cast<double>(element_count(in.sizes(order.filter)));
  const auto packed = 2 * static_cast<double>(element_count(order.extents));
  return std::optional<TensorLaunches>{
      {*std::move(made), {{from.at, all_of(from, in.sizes(order.filter)), bytes}, {{}, {}, packed}}}};
}

}  // namespace unisono::network::gpu
