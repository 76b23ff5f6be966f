/// The border between the caller's tensors and the network's.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "network/cuda/emit/emission.hpp"

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

}  // namespace

void emit_border(RegionEmission& e, const BorderTensor& tensor) {
  static constexpr const char* ways[] = {"input", "output", "to host", "from host"};
  const auto& [id, position, way] = tensor;
  e.name = fmt::format("{} {}", ways[static_cast<std::size_t>(way)], e.in.name(id));
  if (e.in.is_empty(id)) return;
  const Sizes s = as_image(e.sizes(id));
  const PitchedTensor at = e.tensor(id);
  BorderParams fixed{};
  fixed.images = count32(s[0]), fixed.height = count32(s[1]), fixed.width = fixed.columns = count32(s[2]);
  fixed.channels = count32(s[3]);
  fixed.taps = 1, fixed.stride = 1;
  fixed.arena.pitch = at.pitch;
  const Interval own = all_of(at, e.sizes(id)), outside = callers_tensor(position);
  Step& step = e.plain(
      tensor.enters() ? codegen::PlainKernel::enter : codegen::PlainKernel::leave,
      border_threads(s[0] * s[1] * s[2], s[3]), fixed, {at.at},
      tensor.enters() ? Touched{{tensor.is_callers() ? all_callers(e) : outside}, {own}} : Touched{{own}, {outside}},
      {"change of layout and type"}, border_addresses(at.at, position));
  // the caller's tensors of 16 bits, as frameworks have them; a host step's are f32
  step.bytes = (tensor.is_callers() ? 4 : 6) * static_cast<double>(element_count(s));
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
