/// Volumes as images. A tensor (N,C,D,H,W) lies in memory in the order of its axes, and the kernels of a GPU multiply
/// pixels whose channels lie together. So convolutions of volumes, and what follows them element by element, work on
/// images (N,C,D·H,W), the planes of a volume one below the other; a reshape at either end changes the order. Likewise
/// rows of pixels (N,C,W), which are convolved as images of one image row.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "network/dim.hpp"
#include "network/regions.hpp"
#include "network/shape_limits.hpp"
#include "network/volume_stacker.hpp"

namespace unisono::network {

namespace {

constexpr std::int64_t channel_multiple = 8;  // 16 bytes of elements of 16 bits, by which TMA counts

std::int64_t padded_channels(std::int64_t channels) {
  return (channels + channel_multiple - 1) / channel_multiple * channel_multiple;
}

// Whether the operator makes a row of pixels (N,C,W) of an image of one image row, as what follows a convolution of
// rows does: see the ONNX importer
bool leaves_row(const Network& n, const Operator& op) {
  if (!std::holds_alternative<operators::Reshape>(op.kind)) return false;
  const Shape &from = n[op.inputs[0]].shape, &to = n[op.output].shape;
  const auto maker = std::ranges::find(n.operators, op.inputs[0], &Operator::output);
  return maker != n.operators.end() && std::holds_alternative<operators::Conv2d>(maker->kind) && from.size() == 4 &&
         is_one(from[2]) && to == Shape{from[0], from[1], from[3]};
}

// A filter with zeros for more channels, (K,C,T·R,S)
std::shared_ptr<const std::vector<float>> padded_filter(const std::vector<float>& x, std::int64_t filters,
                                                        std::int64_t channels, std::int64_t padded) {
  const std::int64_t taps = static_cast<std::int64_t>(x.size()) / (filters * channels);
  std::vector<float> y(static_cast<std::size_t>(filters * padded * taps), 0.f);
  for (std::int64_t k = 0; k < filters; ++k)
    std::copy_n(x.begin() + k * channels * taps, channels * taps, y.begin() + k * padded * taps);
  return std::make_shared<const std::vector<float>>(std::move(y));
}

}  // namespace

TensorId VolumeStacker::add(const NetworkTensor& like, Shape shape, std::string_view suffix) {
  out_.tensors.push_back(
      {like.name + std::string(suffix), like.dtype, std::move(shape), like.constant, like.bytes, like.keeps_f32});
  return static_cast<TensorId>(out_.tensors.size() - 1);
}

// The same elements in another shape; only the first extent may be a symbol
TensorId VolumeStacker::reshaped(TensorId id, Shape shape, std::string_view suffix) {
  const NetworkTensor like = out_[id];
  const TensorId to = add(like, shape, suffix);
  if (like.is_constant()) return to;
  operators::Reshape r;
  for (const Dim& d : shape) r.shape.push_back(d.known() ? d.value() : 0);
  out_.operators.push_back({std::move(r), out_[to].name, {id}, to});
  return to;
}

// The image of a volume, which a reshape makes if there is none
TensorId VolumeStacker::stack(TensorId id) {
  if (!stacked_[id]) stacked_[id] = reshaped(id, stacked_shape(in_[id].shape), "_stacked");
  return *stacked_[id];
}

// Makes sure that the tensor itself is there
void VolumeStacker::write(TensorId id) {
  if (!pending_[id]) return;
  pending_[id] = false;
  operators::Reshape r;
  for (const Dim& d : in_[id].shape) r.shape.push_back(d.known() ? d.value() : 0);
  out_.operators.push_back({std::move(r), in_[id].name, {*stacked_[id]}, id});
}

void VolumeStacker::keep(Operator op) {
  for (TensorId& id : op.inputs) {
    if (pending_[id] && out_[*stacked_[id]].shape == in_[id].shape) {
      id = *stacked_[id];
    } else {
      write(id);
    }
  }
  out_.operators.push_back(std::move(op));
}

// The operator on images
void VolumeStacker::emit(const Operator& of, OperatorKind kind, std::vector<TensorId> inputs, Shape shape) {
  NetworkTensor like = in_[of.output];
  const TensorId to = add(like, std::move(shape), "_stacked");
  out_.operators.push_back({std::move(kind), of.name, std::move(inputs), to});
  become(of.output, to);
}

bool VolumeStacker::rewrite(const Operator& op) {
  if (in_[op.output].dtype != DType::f32 || !has_pixels(in_[op.output].shape)) return false;
  if (const auto* c = std::get_if<operators::Conv3d>(&op.kind)) return convolve(op, *c);
  if (const auto* c = std::get_if<operators::Concat>(&op.kind)) return concatenate(op, *c);
  if (std::holds_alternative<operators::Elementwise>(op.kind)) return elementwise(op);
  if (op.inputs.empty()) return false;
  if (leaves_row(in_, op) && !stacked_[op.inputs[0]]) return become(op.output, op.inputs[0]), true;
  if (note_shape(op) || reshape_frames(op)) return true;
  if (const auto* t = std::get_if<operators::Transpose>(&op.kind)) return transpose(op, *t);
  if (!stacked_[op.inputs[0]]) return false;
  if (const auto* g = std::get_if<operators::Gather>(&op.kind)) return gather(op, *g);
  if (const auto* s = std::get_if<operators::Slice>(&op.kind)) return slice(op, *s);
  if (std::holds_alternative<operators::BatchNorm>(op.kind) ||
      std::holds_alternative<operators::Normalisation>(op.kind))
    return normalise(op);
  if (std::holds_alternative<operators::Reshape>(op.kind) || std::holds_alternative<operators::Flatten>(op.kind) ||
      std::holds_alternative<operators::ReshapeLike>(op.kind) || std::holds_alternative<operators::Identity>(op.kind))
    return reshape(op);
  return false;
}

// Zeros for further channels
TensorId VolumeStacker::with_channels(TensorId image, std::int64_t channels) {
  Shape shape = out_[image].shape;
  const std::int64_t more = channels - shape[1].value();
  if (more == 0) return image;
  shape[1] = Dim(channels);
  const NetworkTensor like = out_[image];
  const TensorId to = add(like, std::move(shape), "_padded");
  out_.operators.push_back(
      {operators::Pad{.before = {0, 0, 0, 0}, .after = {0, more, 0, 0}}, out_[to].name, {image}, to});
  return to;
}

// A constant filter (K,C,T,R,S) as (K,C,T·R,S), with zeros for further channels
TensorId VolumeStacker::filter_of(TensorId id, std::int64_t channels) {
  const NetworkTensor like = in_[id];
  Shape shape = stacked_shape(like.shape);
  const std::int64_t own = shape[1].value();
  shape[1] = Dim(channels);
  const TensorId to = add(like, std::move(shape), "_stacked");
  if (channels != own) out_.tensors[to].constant = padded_filter(*like.constant, like.shape[0].value(), own, channels);
  return to;
}

// (N,C,D,H,W) as (N,S·C,D·H,Q): of each output column the voxels of a row that a filter of S taps meets. Taps beyond
// the filter's meet padding.
TensorId VolumeStacker::row_taps(TensorId volume, const operators::Conv3d& c, std::int64_t filter, std::int64_t taps,
                                 std::int64_t columns) {
  const NetworkTensor like = in_[volume];
  Shape s = like.shape;
  const std::int64_t before = c.before[2], after = c.after[2] + (taps > filter && before + c.after[2] == 0 ? 1 : 0);
  const std::int64_t padding = before > 0 ? 0 : s[4].value() + after - 1;
  TensorId x = volume;
  if (before + after > 0) {
    s[4] = Dim(s[4].value() + before + after);
    x = add(like, s, "_wide");
    const operators::Pad pad{.before = {0, 0, 0, 0, before}, .after = {0, 0, 0, 0, after}};
    out_.operators.push_back({pad, out_[x].name, {volume}, x});
  }
  std::vector<std::int64_t> places;
  for (std::int64_t tap = 0; tap < taps; ++tap)
    for (std::int64_t q = 0; q < columns; ++q)
      places.push_back(tap < filter ? q * c.stride[2] + tap * c.dilation[2] : padding);
  auto bytes = std::make_shared<std::vector<std::byte>>(places.size() * sizeof(std::int64_t));
  std::memcpy(bytes->data(), places.data(), bytes->size());
  const TensorId table = add(like, {Dim(taps), Dim(columns)}, "_places");
  out_.tensors[table].dtype = DType::i64, out_.tensors[table].bytes = std::move(bytes);
  const TensorId met = add(like, {s[0], s[1], s[2], s[3], Dim(taps), Dim(columns)}, "_met");
  out_.operators.push_back({operators::Gather{.axis = 4}, out_[met].name, {x, table}, met});
  const TensorId turned = add(like, {s[0], Dim(taps), s[1], s[2], s[3], Dim(columns)}, "_turned");
  out_.operators.push_back({operators::Transpose{{0, 4, 1, 2, 3, 5}}, out_[turned].name, {met}, turned});
  const Shape image{s[0], Dim(taps * s[1].value()), Dim(s[2].value() * s[3].value()), Dim(columns)};
  return reshaped(turned, image, "_taps");
}

// (K,C,T,R,S) as (K,S·C,T·R,1), with zeros for further channels
static std::shared_ptr<const std::vector<float>> filter_of_row_taps(const NetworkTensor& filter,
                                                                    std::int64_t channels) {
  const Shape& w = filter.shape;
  const std::int64_t own = w[1].value(), others = w[2].value() * w[3].value(), taps = w[4].value();
  std::vector<float> values(static_cast<std::size_t>(w[0].value() * channels * others), 0.f);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(filter.constant->size()); ++i) {
    const std::int64_t tap = i % taps, other = i / taps % others, channel = i / (taps * others) % own,
                       k = i / (taps * others * own);
    values[static_cast<std::size_t>((k * channels + tap * own + channel) * others + other)] =
        (*filter.constant)[static_cast<std::size_t>(i)];
  }
  return std::make_shared<const std::vector<float>>(std::move(values));
}

// Few channels: those of the taps of a row together fill the multiple of channels that each tap would be padded to
bool VolumeStacker::convolve_row_taps(const Operator& op, const operators::Conv3d& c) {
  const Shape &x = in_[op.inputs[0]].shape, &w = in_[op.inputs[1]].shape, &y = in_[op.output].shape;
  constexpr std::int64_t most_channels = 4 * channel_multiple;
  const std::int64_t own = w[1].value(), taps = w[4].value(), channels = padded_channels(own * taps);
  if (c.groups != 1 || stacked_[op.inputs[0]] || own >= channel_multiple || channels > most_channels ||
      channels >= taps * channel_multiple)
    return false;
  write(op.inputs[0]);
  operators::Conv3d rows = c;
  rows.stride[2] = rows.dilation[2] = 1, rows.before[2] = rows.after[2] = 0;
  const TensorId image = row_taps(op.inputs[0], c, taps, channels % own == 0 ? channels / own : taps, y[4].value());
  const TensorId weights =
      add(in_[op.inputs[1]], {w[0], Dim(channels), Dim(w[2].value() * w[3].value()), Dim(1)}, "_row_taps");
  out_.tensors[weights].constant = filter_of_row_taps(in_[op.inputs[1]], channels);
  std::vector<TensorId> inputs{with_channels(image, channels), weights};
  if (op.inputs.size() == 3) write(op.inputs[2]), inputs.push_back(op.inputs[2]);
  emit(op, operators::StackedConv3d{std::move(rows), x[2].value(), w[2].value()}, std::move(inputs), stacked_shape(y));
  return true;
}

bool VolumeStacker::convolve(const Operator& op, const operators::Conv3d& c) {
  if (refuse_stacking(in_, op)) return false;
  if (convolve_row_taps(op, c)) return true;
  const Shape &x = in_[op.inputs[0]].shape, &w = in_[op.inputs[1]].shape;
  std::int64_t channels = w[1].value();
  if (c.groups == 1) channels = padded_channels(channels);
  TensorId image = stack(op.inputs[0]);
  if (c.groups == 1) image = with_channels(image, channels);
  std::vector<TensorId> inputs{image, filter_of(op.inputs[1], channels)};
  if (op.inputs.size() == 3) write(op.inputs[2]), inputs.push_back(op.inputs[2]);
  const std::vector<std::int64_t> none(3, 0), ones(3, 1);
  const bool voxels =
      w[2] == Dim(1) && w[3] == Dim(1) && w[4] == Dim(1) && c.stride == ones && c.before == none && c.after == none;
  OperatorKind kind = operators::StackedConv3d{c, x[2].value(), w[2].value()};
  if (voxels) kind = operators::Conv2d{ConvAttributes{.groups = c.groups}};
  emit(op, std::move(kind), std::move(inputs), stacked_shape(in_[op.output].shape));
  return true;
}

// Over an image's pixels, or the channels of each: those of rank 4 are, and stored statistics
bool VolumeStacker::normalise(const Operator& op) {
  if (std::holds_alternative<operators::Normalisation>(op.kind) && in_[op.output].shape.size() != 4) return false;
  std::vector<TensorId> inputs = op.inputs;
  inputs[0] = *stacked_[op.inputs[0]];
  for (std::size_t i = 1; i < inputs.size(); ++i) write(inputs[i]);
  emit(op, op.kind, std::move(inputs), out_[*stacked_[op.inputs[0]]].shape);
  return true;
}

// The shape of the images that an elementwise operator reads beside others; null: it reads none
const Shape* VolumeStacker::image_of(const Operator& op) const {
  for (const TensorId id : op.inputs)
    if (stacked_[id] && in_[id].shape == in_[op.output].shape) return &out_[*stacked_[id]].shape;
  return nullptr;
}

// An operand as it broadcasts over images (N,C,D·H,W) as it did over `space`; nothing: it varies in other ways
std::optional<TensorId> VolumeStacker::operand(TensorId id, const Shape& space, const Shape& image) {
  const Shape& s = in_[id].shape;
  if (in_[id].dtype != DType::f32) return std::nullopt;
  if (stacked_[id] && s == space && out_[*stacked_[id]].shape == image) return stacked_[id];
  if (is_volume(s) && space.size() == 5 && std::equal(s.begin() + 2, s.end(), space.begin() + 2)) return stack(id);
  const std::size_t missing = space.size() - s.size();
  for (std::size_t i = 0; i < s.size(); ++i)
    if (i + missing >= 2 && !is_one(s[i])) return std::nullopt;
  if (missing >= 2) {
    write(id);
    return s.empty() ? id : reshaped(id, {Dim(1)}, "_scalar");
  }
  Shape shape(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(2 - missing));
  shape.insert(shape.end(), 2, Dim(1));
  if (!std::all_of(shape.begin() + 1, shape.end(), is_number_of_pixels)) return std::nullopt;
  write(id);
  return reshaped(id, std::move(shape), "_stacked");
}

bool VolumeStacker::elementwise(const Operator& op) {
  const Shape* image = image_of(op);
  if (image == nullptr) return false;
  const Shape shape = *image;
  std::vector<TensorId> inputs;
  for (const TensorId id : op.inputs) {
    const auto own = operand(id, in_[op.output].shape, shape);
    if (!own) return false;
    inputs.push_back(*own);
  }
  emit(op, op.kind, std::move(inputs), shape);
  return true;
}

std::optional<Refusal> refuse_stacking(const Network& n, const Operator& op) {
  const auto& c = std::get<operators::Conv3d>(op.kind);
  if (c.transposed) return because("it is transposed");
  if (n[op.output].keeps_f32) return because("the model computes it in f32");
  if (!n[op.inputs[1]].constant) return because("its filter is not a constant");
  if (!is_volume(n[op.inputs[0]].shape) || !is_volume(n[op.output].shape))
    return because(fmt::format("its volumes {} have no known extents", to_string(n[op.inputs[0]].shape)));
  if (n[op.inputs[0]].is_constant()) return because("its volumes are a constant");
  for (const TensorId id : {op.inputs[0], op.inputs[1], op.output}) {
    const std::int64_t rows = n[id].shape[2].value() * n[id].shape[3].value();  // each at most 2^31
    if (rows > largest_extent)
      return because(fmt::format("its planes one below the other have {} rows; at most {}", rows, largest_extent));
  }
  return std::nullopt;
}

Network stacked_volumes(const Network& network) {
  const auto stacks = [&](const Operator& op) {
    const bool volume = std::holds_alternative<operators::Conv3d>(op.kind);
    return volume ? !refuse_stacking(network, op) : leaves_row(network, op);
  };
  return std::ranges::any_of(network.operators, stacks) ? VolumeStacker(network).run() : network;
}

}  // namespace unisono::network
