/// How stacked volumes are moved: their planes and channels are joined and cut where they lie, and frames (N·T,C,H,W)
/// are the same pixels as the volume (N,C,T,H,W).

#include <cstring>

#include "network/dim.hpp"
#include "network/infer_tensors.hpp"
#include "network/volume_stacker.hpp"

namespace unisono::network {

// What leaves images and channels as they are moves nothing; a volume of other planes or rows would be another image
bool VolumeStacker::reshape(const Operator& op) {
  const TensorId image = *stacked_[op.inputs[0]];
  const Shape &to = in_[op.output].shape, &s = out_[image].shape;
  if (!(to[0] == s[0]) || !(to[1] == s[1]) || (is_volume(to) && !(stacked_shape(to) == s))) return false;
  become(op.output, image);
  return true;
}

// Joins channels or planes, where some of the volumes are images already
bool VolumeStacker::concatenate(const Operator& op, const operators::Concat& c) {
  const auto is_stacked = [&](TensorId id) { return stacked_[id].has_value(); };
  const auto may_be = [&](TensorId id) { return is_volume(in_[id].shape) && in_[id].dtype == DType::f32; };
  if ((c.axis != 1 && c.axis != 2) || !std::ranges::any_of(op.inputs, is_stacked) ||
      !std::ranges::all_of(op.inputs, may_be))
    return false;
  std::vector<TensorId> inputs;
  for (const TensorId id : op.inputs) inputs.push_back(stack(id));
  emit(op, c, std::move(inputs), stacked_shape(in_[op.output].shape));
  return true;
}

// Channels or planes of an image
bool VolumeStacker::slice(const Operator& op, const operators::Slice& s) {
  const Shape& from = in_[op.inputs[0]].shape;
  if (s.axes == std::vector{2} && s.steps == std::vector<std::int64_t>{1} && is_volume(from)) {
    const SliceRange range = slice_range(s, 0, from[2].value());
    return take_frames(op, range.begin, range.count);
  }
  if (s.axes != std::vector{1}) return false;
  Shape shape = out_[*stacked_[op.inputs[0]]].shape;
  shape[1] = in_[op.output].shape[1];
  emit(op, s, {*stacked_[op.inputs[0]]}, std::move(shape));
  return true;
}

// Planes that follow each other
bool VolumeStacker::take_frames(const Operator& op, std::int64_t first, std::int64_t count) {
  const Shape& from = in_[op.inputs[0]].shape;
  const TensorId image = *stacked_[op.inputs[0]];
  if (count < 1) return false;
  if (count == from[2].value()) return become(op.output, image), true;
  const std::int64_t rows = from[3].value();
  Shape shape = out_[image].shape;
  shape[2] = Dim(count * rows);
  emit(op, operators::Slice{.starts = {first * rows}, .ends = {(first + count) * rows}, .steps = {1}, .axes = {2}},
       {image}, std::move(shape));
  return true;
}

// One plane, by a constant
bool VolumeStacker::gather(const Operator& op, const operators::Gather& g) {
  const Shape& from = in_[op.inputs[0]].shape;
  const NetworkTensor& index = in_[op.inputs[1]];
  if (g.axis != 2 || !is_volume(from) || index.dtype != DType::i64 || !index.is_constant() ||
      index.elements().size() != sizeof(std::int64_t))
    return false;
  std::int64_t plane = 0;
  std::memcpy(&plane, index.elements().data(), sizeof plane);
  if (plane < 0) plane += from[2].value();
  if (plane < 0 || plane >= from[2].value()) return false;  // an error of the run
  return take_frames(op, plane, 1);
}

// A tensor of rank 4 as it is there
TensorId VolumeStacker::known_image(TensorId id) {
  if (pending_[id] && out_[*stacked_[id]].shape == in_[id].shape) return *stacked_[id];
  write(id);
  return id;
}

// An image (N,C,T·H,W) of the caller's that becomes a volume; images (N·T,C,H,W) that become frames are only noted
bool VolumeStacker::note_shape(const Operator& op) {
  if (!std::holds_alternative<operators::Reshape>(op.kind)) return false;
  const Shape &from = in_[op.inputs[0]].shape, &to = in_[op.output].shape;
  if (from.size() != 4 || to.size() != 5 || !is_volume(to) || stacked_[op.inputs[0]]) return false;
  if (stacked_shape(to) == from && !(to[2] == Dim(1))) return become(op.output, op.inputs[0]), true;
  if (to[0].known() && from[0] == Dim(to[0].value() * to[1].value()) &&
      std::equal(from.begin() + 1, from.end(), to.begin() + 2))
    frames_[op.output] = op.inputs[0];
  return false;
}

// Between (N,T,C,H,W) and (N,C,T,H,W): the same pixels as those of images (N·T,C,H,W), channels last
bool VolumeStacker::transpose(const Operator& op, const operators::Transpose& t) {
  if (t.order != std::vector{0, 2, 1, 3, 4} || !in_[op.output].shape[0].known()) return false;
  if (const auto frames = frames_[op.inputs[0]]) {
    const Shape image = stacked_shape(in_[op.output].shape);
    emit(op, operators::PixelReshape{values(image)}, {known_image(*frames)}, image);
    return true;
  }
  if (is_volume(in_[op.inputs[0]].shape)) turned_[op.output] = stacked_[op.inputs[0]];
  return false;
}

bool VolumeStacker::reshape_frames(const Operator& op) {
  const Shape &from = in_[op.inputs[0]].shape, &to = in_[op.output].shape;
  const auto image = turned_[op.inputs[0]];
  if (!image || !std::holds_alternative<operators::Reshape>(op.kind) || to.size() != 4 ||
      !(to[0] == Dim(from[0].value() * from[1].value())) || !std::equal(to.begin() + 1, to.end(), from.begin() + 2))
    return false;
  out_.operators.push_back({operators::PixelReshape{values(to)}, op.name, {*image}, op.output});
  return true;
}

}  // namespace unisono::network
