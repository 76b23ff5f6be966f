/// The border between the caller's tensors and the network's.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "network/cuda/emit/emission.hpp"
#include "network/shape_limits.hpp"
#include "tensors/caller.hpp"

namespace unisono::network::gpu {

namespace {

// A tensor outside as images, image rows, pixels and channels; of a rank above 4 as its rows
Sizes as_image(const Sizes& s) {
  if (s.size() == 4) return {s[0], s[2], s[3], s[1]};
  if (s.size() > 4) return {1, 1, element_count(s) / std::max<std::int64_t>(s.back(), 1), s.back()};
  Sizes image(4 - s.size(), 1);
  image.insert(image.end(), s.begin(), s.end());
  return image;
}

// Enough for a tile or an octet a thread (kernels/unisono/plain/plain.cuh)
std::int64_t border_threads(std::int64_t rows, std::int64_t channels) {
  std::int64_t width = 8;
  while (width < 64 && width < channels) width *= 2;
  const std::int64_t height = 4096 / width;
  return (rows + height - 1) / height * ((channels + width - 1) / width) * 256;
}

Interval all_callers(const RegionEmission& e) {
  return callers_tensors(e.net().inputs.size() + e.net().outputs.size());
}

// Completes the parameters with addresses
auto border_addresses(const Location& at, std::size_t position) {
  return [at, offset = position * sizeof(CallerTensor)](BorderParams& p, const Bases& bases) {
    p.caller = reinterpret_cast<const CallerTensor*>(bases.callers + offset);
    p.arena.memory = address(at, bases);
  };
}

// Strides of a tensor of the network along the axes of CallerTensor::strides, which have these extents
Sizes strides_as_outside(const Sizes& extents, std::int64_t pitch) {
  Sizes strides(extents.size(), 1);
  for (std::size_t i = extents.size() - 1; i-- > 0; pitch *= extents[i]) strides[i] = pitch;
  return strides;
}

Touched touched_by(const RegionEmission& e, const BorderTensor& tensor, const Interval& own) {
  const Interval outside = callers_tensor(tensor.position);
  if (!tensor.enters()) return {{own}, {outside}};
  return {{tensor.is_callers() ? all_callers(e) : outside}, {own}};
}

// A tensor of a type that plain kernels do not know
static_assert(largest_rank <= kCallerAxes);
Step& emit_typed(RegionEmission& e, const BorderTensor& tensor, const PitchedTensor& at) {
  const Sizes& sizes = e.sizes(tensor.id);
  const Sizes s = has_own_axes(sizes.size(), e.net()[tensor.id].dtype) ? sizes : as_image(sizes);
  const tensors::StridedTensor own{
      .type = {e.net()[tensor.id].dtype, at.type}, .shape = s, .strides = strides_as_outside(s, at.pitch)};
  const auto made = tensor.enters() ? tensors::enter(own) : tensors::leave(own);
  if (!made) e.refuse(fmt::format("{}: {}", e.name, made.refusal().first()));
  const tensors::Launch& launch = made->list.at(0);
  const Location outside{Location::Space::callers, tensor.position * sizeof(CallerTensor), {}};
  const auto parameters = [launch, outside, at = at.at](const Bases& bases) {
    return tensors::complete(
        launch, [&](const tensors::Address& a) { return address(a.number == 0 ? outside : at, bases); }, 1);
  };
  return e.add(std::make_unique<PlainStep>(launch.source, launch.entry, e.in.device.arch(), e.grid(launch.threads),
                                           launch.parameters.size(), parameters),
               {"change of layout", "plain kernel, " + launch.how}, {at.at}, touched_by(e, tensor, all_of(at, sizes)));
}

// Floats, which become elements or were such
Step& emit_floats(RegionEmission& e, const BorderTensor& tensor, const PitchedTensor& at) {
  const Sizes s = as_image(e.sizes(tensor.id));
  BorderParams fixed{};
  fixed.images = count32(s[0]), fixed.height = count32(s[1]), fixed.width = fixed.columns = count32(s[2]);
  fixed.channels = count32(s[3]);
  fixed.taps = 1, fixed.stride = 1;
  fixed.arena.pitch = at.pitch;
  return e.plain(tensor.enters() ? codegen::PlainKernel::enter : codegen::PlainKernel::leave,
                 border_threads(s[0] * s[1] * s[2], s[3]), fixed, {at.at},
                 touched_by(e, tensor, all_of(at, e.sizes(tensor.id))), {"change of layout and type"},
                 border_addresses(at.at, tensor.position));
}

// The caller's floats have 16 bits, as frameworks have them; a host step's are f32
double bytes_outside(const RegionEmission& e, const BorderTensor& tensor) {
  const DType type = e.net()[tensor.id].dtype;
  return type == DType::f32 && tensor.is_callers() ? 2 : static_cast<double>(size_of(type));
}

}  // namespace

void emit_border(RegionEmission& e, const BorderTensor& tensor) {
  static constexpr const char* ways[] = {"input", "output", "to host", "from host"};
  const TensorId id = tensor.id;
  e.name = fmt::format("{} {}", ways[static_cast<std::size_t>(tensor.way)], e.in.name(id));
  if (e.in.is_empty(id)) return;
  const bool typed = e.in.fused.own_type[id];
  const PitchedTensor at = e.in.tensor(id);
  Step& step = typed ? emit_typed(e, tensor, at) : emit_floats(e, tensor, at);
  step.bytes = (bytes_outside(e, tensor) + static_cast<double>(size_of(at.type))) *
               static_cast<double>(element_count(e.sizes(id)));
}

Location emit_im2col(RegionEmission& e, const Conv2d& given, const Conv2d& im2col) {
  const std::int64_t rows = im2col.n * im2col.h * im2col.w;
  const Location to = e.launches.scratch(static_cast<std::size_t>(2 * rows * im2col.c));
  BorderParams fixed{};
  fixed.images = count32(im2col.n), fixed.height = count32(im2col.h), fixed.width = count32(im2col.w);
  fixed.columns = count32(given.w), fixed.channels = count32(given.c), fixed.taps = count32(given.s);
  fixed.stride = e.place32("stride", given.stride[1]), fixed.pad = e.place32("pad", given.pad[1]);
  fixed.dilation = e.place32("dilation", given.dilation[1]);
  fixed.arena.pitch = im2col.c;
  const std::string name = std::exchange(e.name, fmt::format("input {}", e.in.name(e.input())));
  e.plain(codegen::PlainKernel::enter, border_threads(rows, given.c * given.s), fixed, {to},
          Touched{{all_callers(e)}, {interval(to, rows, 2 * im2col.c, 2 * im2col.c)}},
          {fmt::format("change of layout and type, the {} taps of an image row as channels", given.s)},
          border_addresses(to, e.plan.im2col_inputs.at(e.input())));
  e.name = name;
  return to;
}

}  // namespace unisono::network::gpu
