#include "families/sm90/phases.hpp"

#include <fmt/format.h>

#include "support/dtypes.hpp"

namespace unisono::families::sm90 {

using plan::because;

std::optional<plan::Refusal> beyond_phases(const ConvTranspose2d& t) {
  if (t.stride[0] != 2 || t.stride[1] != 2)
    return because(fmt::format("stride {}x{}; phases are 2x2", t.stride[0], t.stride[1]));
  if (t.dilation[0] != 1 || t.dilation[1] != 1)
    return because(fmt::format("dilation {}x{}; taps of a phase are neighbours without", t.dilation[0], t.dilation[1]));
  if (t.layout == Layout::nchw) return because("channels first");
  if (support::is_multiplied_as_tf32(t.dtype_x))
    return because("f32; tf32 needs contiguous k, which filters of phases do not have");
  if (t.groups != 1) return because(fmt::format("{} groups of channels", t.groups));
  if (t.c % 8 != 0 || t.k % 8 != 0)
    return because(fmt::format("{} input and {} output channels; strides of TMA are multiples of 16 bytes", t.c, t.k));
  const Extents e = extents(t);
  if (e.height < 2 || e.width < 2)
    return because(fmt::format("{}x{} output pixels; some phases have none", e.height, e.width));
  return std::nullopt;
}

std::optional<plan::ConvTask> by_phases(const Contraction& contraction) {
  const auto* t = std::get_if<ConvTranspose2d>(&contraction);
  if (t == nullptr || beyond_phases(*t)) return std::nullopt;
  plan::ConvTask task = plan::as_convolution(contraction);
  Conv2d& c = task.conv;
  task.phases = true;
  c.stride = {1, 1};
  c.r = phase_taps(t->r), c.s = phase_taps(t->s);
  return task;
}

}  // namespace unisono::families::sm90
