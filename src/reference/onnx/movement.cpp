/// Operators that cut, join and rearrange tensors, as ONNX defines them.

#include <algorithm>
#include <cmath>

#include "reference/onnx/definitions.hpp"

namespace unisono::float64 {
namespace {

void define_concat(Call& call) {
  const ReferenceInputs in = call.all();
  const std::size_t axis = call.axis(call.integer("axis", 1), in[0]->shape.size());
  Extents64 shape = in[0]->shape;
  shape[axis] = 0;
  for (const Tensor64* x : in) shape[axis] += x->shape[axis];
  Tensor64 y = empty_tensor(shape);
  y.dtype = in[0]->dtype;
  std::size_t to = 0;
  for_indices(shape, [&](Extents64 at) {
    std::size_t part = 0;
    while (at[axis] >= in[part]->shape[axis]) at[axis] -= in[part++]->shape[axis];
    y.value[to++] = in[part]->value[place(in[part]->shape, at)];
  });
  call.result(std::move(y));
}

// Equal parts, the last of which may be smaller, or parts of the given lengths
void define_split(Call& call) {
  const Tensor64& x = call.in(0);
  const std::size_t axis = call.axis(call.integer("axis", 0), x.shape.size());
  auto lengths = call.list("split", 1);
  if (!lengths) {
    const std::int64_t parts = call.integer("num_outputs", static_cast<std::int64_t>(call.outputs()));
    const std::int64_t extent = x.shape[axis], length = (extent + parts - 1) / parts;
    lengths.emplace();
    for (std::int64_t i = 0; i < parts; ++i)
      lengths->push_back(std::clamp<std::int64_t>(extent - i * length, 0, length));
  }
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < lengths->size(); ++i) {
    Extents64 shape = x.shape;
    (*lengths)[i] = std::min((*lengths)[i], x.shape[axis] - begin);  // as the importer: docs/networks.md
    shape[axis] = (*lengths)[i];
    call.result(picked(x, shape,
                       [&](Extents64 at) {
                         at[axis] += begin;
                         return at;
                       }),
                i);
    begin += (*lengths)[i];
  }
}

// NumPy's x[begin:end:step]
void define_slice(Call& call) {
  const Tensor64& x = call.in(0);
  const auto starts = call.list("starts", 1).value(), ends = call.list("ends", 2).value();
  const auto axes = call.list("axes", 3), steps = call.has(4) ? std::optional(call.numbers(4)) : std::nullopt;
  Extents64 first(x.shape.size(), 0), step(x.shape.size(), 1), shape = x.shape;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t a = axes ? call.axis((*axes)[i], x.shape.size()) : i;
    const std::int64_t extent = x.shape[a], s = steps ? (*steps)[i] : 1;
    const std::int64_t low = s > 0 ? 0 : -1, high = s > 0 ? extent : extent - 1;
    const auto clamped = [&](std::int64_t place) { return std::clamp(place < 0 ? place + extent : place, low, high); };
    const std::int64_t begin = clamped(starts[i]), end = clamped(ends[i]);
    const std::int64_t distance = s > 0 ? end - begin : begin - end, size = s == INT64_MIN ? INT64_MAX : std::abs(s);
    first[a] = begin, step[a] = s;
    shape[a] = distance <= 0 ? 0 : 1 + (distance - 1) / size;
  }
  call.result(picked(x, shape, [&](Extents64 at) {
    for (std::size_t d = 0; d < at.size(); ++d) at[d] = first[d] + at[d] * step[d];
    return at;
  }));
}

void define_tile(Call& call) {
  const Tensor64& x = call.in(0);
  const auto repeats = call.numbers(1);
  Extents64 shape = x.shape;
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] *= repeats.at(i);
  call.result(picked(x, shape, [&](Extents64 at) {
    for (std::size_t d = 0; d < at.size(); ++d) at[d] %= x.shape[d];
    return at;
  }));
}

// The element that stands at place i of an axis that is continued; −1: a constant
std::int64_t source(std::int64_t i, std::int64_t extent, const std::string& mode) {
  if (i >= 0 && i < extent) return i;
  if (mode == "constant") return -1;
  if (mode == "edge") return i < 0 ? 0 : extent - 1;
  if (mode == "wrap") return ((i % extent) + extent) % extent;
  if (extent == 1) return 0;
  while (i < 0 || i >= extent) i = i < 0 ? -i : 2 * (extent - 1) - i;  // reflect, without the edge itself
  return i;
}

void define_pad(Call& call) {
  const Tensor64& x = call.in(0);
  const std::size_t rank = x.shape.size();
  const auto pads = call.list("pads", 1).value();
  std::vector<std::int64_t> axes(rank);
  for (std::size_t i = 0; i < rank; ++i) axes[i] = static_cast<std::int64_t>(i);
  if (call.has(3)) axes = call.numbers(3);
  const double value = call.has(2) && !call.in(2).value.empty() ? call.in(2).value[0] : call.real("value", 0);
  const std::string mode = call.text("mode", "constant");
  Extents64 before(rank, 0), shape = x.shape;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t a = call.axis(axes[i], rank);
    before[a] = pads.at(i);
    shape[a] += pads[i] + pads.at(i + axes.size());
  }
  Tensor64 y = empty_tensor(shape);
  y.dtype = x.dtype;
  std::size_t to = 0;
  for_indices(shape, [&](Extents64 at) {
    bool inside = true;
    for (std::size_t d = 0; d < rank; ++d) {
      at[d] = source(at[d] - before[d], x.shape[d], mode);
      inside = inside && at[d] >= 0;
    }
    y.value[to++] = inside ? x.value[place(x.shape, at)] : value;
  });
  call.result(std::move(y));
}

// A channel of the deep tensor, and where its elements are in the wide one
void define_depth_to_space(Call& call) {
  const Tensor64& x = call.in(0);
  const std::int64_t b = call.integer("blocksize", 1);
  const bool crd = call.text("mode", "DCR") == "CRD";
  const Extents64& s = x.shape;
  const std::int64_t channels = s[1] / (b * b);
  call.result(picked(x, {s[0], channels, s[2] * b, s[3] * b}, [&](const Extents64& at) {
    const std::int64_t cell = at[2] % b * b + at[3] % b;
    return Extents64{at[0], crd ? at[1] * b * b + cell : cell * channels + at[1], at[2] / b, at[3] / b};
  }));
}

void define_space_to_depth(Call& call) {
  const Tensor64& x = call.in(0);
  const std::int64_t b = call.integer("blocksize", 1);
  const bool crd = call.text("mode", "DCR") == "CRD";
  const Extents64& s = x.shape;
  call.result(picked(x, {s[0], s[1] * b * b, s[2] / b, s[3] / b}, [&](const Extents64& at) {
    const std::int64_t cell = crd ? at[1] % (b * b) : at[1] / s[1], channel = crd ? at[1] / (b * b) : at[1] % s[1];
    return Extents64{at[0], channel, at[2] * b + cell / b, at[3] * b + cell % b};
  }));
}

// Cut or padded with zeros at both ends; of an odd number one more at the far end
void define_center_crop_pad(Call& call) {
  const Tensor64& x = call.in(0);
  const auto target = call.numbers(1);
  const auto axes = call.list("axes");
  Extents64 shape = x.shape, shift(x.shape.size(), 0);
  for (std::size_t i = 0; i < target.size(); ++i) {
    const std::size_t a = axes ? call.axis((*axes)[i], shape.size()) : i;
    const std::int64_t more = x.shape[a] - target[i];
    shift[a] = more >= 0 ? more / 2 : -(-more / 2);
    shape[a] = target[i];
  }
  Tensor64 y = empty_tensor(shape);
  y.dtype = x.dtype;
  std::size_t to = 0;
  for_indices(shape, [&](Extents64 at) {
    bool inside = true;
    for (std::size_t d = 0; d < at.size(); ++d) {
      at[d] += shift[d];
      inside = inside && at[d] >= 0 && at[d] < x.shape[d];
    }
    y.value[to++] = inside ? x.value[place(x.shape, at)] : 0;
  });
  call.result(std::move(y));
}

// The first `lengths` elements of each batch in the opposite order
void define_reverse_sequence(Call& call) {
  const Tensor64& x = call.in(0);
  const auto lengths = call.numbers(1);
  const std::size_t batch = call.axis(call.integer("batch_axis", 1), x.shape.size());
  const std::size_t time = call.axis(call.integer("time_axis", 0), x.shape.size());
  call.result(picked(x, x.shape, [&](Extents64 at) {
    const std::int64_t length = lengths.at(static_cast<std::size_t>(at[batch]));
    if (at[time] < length) at[time] = length - 1 - at[time];
    return at;
  }));
}

constexpr OnnxDefinition movement_table[] = {{"CenterCropPad", define_center_crop_pad},
                                             {"Concat", define_concat},
                                             {"DepthToSpace", define_depth_to_space},
                                             {"Pad", define_pad},
                                             {"ReverseSequence", define_reverse_sequence},
                                             {"Slice", define_slice},
                                             {"SpaceToDepth", define_space_to_depth},
                                             {"Split", define_split},
                                             {"Tile", define_tile}};

}  // namespace

std::span<const OnnxDefinition> movement_definitions() { return movement_table; }

}  // namespace unisono::float64
