/// Images of few channels. A tap of one to sixteen channels is a poor piece for the copy engine, which takes about as
/// long for it as for 64: the taps of a line become channels, when the image is turned into the network's layout
/// anyway.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "network/cuda/lowering.hpp"
#include "network/cuda/parameters.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::int64_t most_channels_unfolded = 16;

}  // namespace

Conv2d unfolded(const Conv2d& c) {
  Conv2d u = c;
  u.w = extents(Contraction(c)).width;
  u.c = c.c * c.s;
  u.s = 1;
  u.stride[1] = u.dilation[1] = 1;
  u.pad[1] = u.pad[3] = 0;
  return u;
}

void Lowering::find_unfolded() {
  const Network& n = net();
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    const TensorId id = n.inputs[i];
    if (n[id].dtype != DType::f32 || std::count(n.outputs.begin(), n.outputs.end(), id) != 0) continue;
    const Operator* only = nullptr;
    std::ptrdiff_t uses = 0;
    for (const Operator& op : n.operators) {
      const auto here = std::count(op.inputs.begin(), op.inputs.end(), id);
      if (here != 0) only = &op;
      uses += here;
    }
    if (uses != 1 || only->inputs[0] != id || !std::holds_alternative<operators::Conv2d>(only->kind)) continue;
    if (std::get<operators::Conv2d>(only->kind).enlarged) continue;
    if (!is_constant(only->inputs[1])) continue;
    const Contraction problem = contraction_of(*only, p_.storage.shapes);
    const auto* c = std::get_if<Conv2d>(&problem);
    if (c != nullptr && c->groups == 1 && c->s > 1 && c->c <= most_channels_unfolded) unfolded_[id] = i;
  }
}

Place Lowering::unfold(const Conv2d& given, const Conv2d& unfolded) {
  const std::int64_t rows = unfolded.n * unfolded.h * unfolded.w;
  const Place to = scratch(static_cast<std::size_t>(2 * rows * unfolded.c));
  const std::size_t offset = unfolded_.at(in(0)) * sizeof(CallerTensor);
  BorderParams fixed{};
  fixed.images = count32(unfolded.n), fixed.height = count32(unfolded.h), fixed.width = count32(unfolded.w);
  fixed.columns = count32(given.w), fixed.channels = count32(given.c), fixed.taps = count32(given.s);
  fixed.stride = place32("stride", given.stride[1]), fixed.pad = place32("pad", given.pad[1]);
  fixed.dilation = place32("dilation", given.dilation[1]);
  fixed.arena.pitch = unfolded.c;
  const std::string name = std::exchange(name_, fmt::format("input {}", net()[in(0)].name));
  plain(codegen::PlainKernel::enter, border_threads(rows, given.c * given.s), fixed, {to},
        Touched{{callers()}, {interval(to, rows, 2 * unfolded.c, 2 * unfolded.c)}},
        fmt::format("change of layout and type, the {} taps of a line as channels", given.s),
        [to, offset](BorderParams& p, const Bases& bases) {
          p.caller = reinterpret_cast<const CallerTensor*>(bases.callers + offset);
          p.arena.memory = address(to, bases);
        });
  name_ = name;
  return to;
}

}  // namespace unisono::network::gpu
