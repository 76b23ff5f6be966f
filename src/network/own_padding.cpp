/// Zeros that are padded ahead of convolutions alone, as causal convolutions are written, are the convolutions' own.

#include <algorithm>

#include "network/dim.hpp"
#include "network/regions.hpp"

namespace unisono::network {

namespace {

// Along an axis of the image: what the Pad adds, to what the convolution pads itself
struct PaddedAxis {
  std::int64_t more_before, more_after, before, after, reach;

  // A window without a voxel of the image is of no use, and refused by some kernels
  bool fits() const {
    return more_before >= 0 && more_after >= 0 && before + more_before < reach && after + more_after < reach;
  }
};

bool pads_zeros(const operators::Pad& p) {
  return p.mode == PadMode::constant && p.value == 0 && p.before.size() >= 3 && p.before[0] == 0 && p.after[0] == 0 &&
         p.before[1] == 0 && p.after[1] == 0;
}

std::optional<operators::Conv2d> with_margins(const operators::Conv2d& c, const operators::Pad& p, const Shape& w) {
  if (p.before.size() != 4 || !w[2].known() || !w[3].known()) return std::nullopt;
  const PaddedAxis rows{p.before[2], p.after[2], c.pad.top, c.pad.bottom, (w[2].value() - 1) * c.dilation.h + 1};
  const PaddedAxis columns{p.before[3], p.after[3], c.pad.left, c.pad.right, (w[3].value() - 1) * c.dilation.w + 1};
  if (!rows.fits() || !columns.fits()) return std::nullopt;
  operators::Conv2d with = c;
  with.pad = {rows.before + rows.more_before, columns.before + columns.more_before, rows.after + rows.more_after,
              columns.after + columns.more_after};
  return with;
}

std::optional<operators::Conv3d> with_margins(const operators::Conv3d& c, const operators::Pad& p, const Shape& w) {
  if (c.transposed || p.before.size() != 5) return std::nullopt;
  operators::Conv3d with = c;
  for (std::size_t i = 0; i < 3; ++i) {
    if (!w[i + 2].known()) return std::nullopt;
    const PaddedAxis axis{p.before[i + 2], p.after[i + 2], c.before[i], c.after[i],
                          (w[i + 2].value() - 1) * c.dilation[i] + 1};
    if (!axis.fits()) return std::nullopt;
    with.before[i] += axis.more_before, with.after[i] += axis.more_after;
  }
  return with;
}

}  // namespace

Network with_own_padding(const Network& network) {
  Network out = network;
  std::vector<const Operator*> maker(network.tensors.size(), nullptr);
  for (const Operator& op : network.operators) maker[op.output] = &op;
  for (Operator& op : out.operators) {
    const auto pad_of = [&]() -> const Operator* {
      const Operator* pad = op.inputs.empty() ? nullptr : maker[op.inputs[0]];
      return pad != nullptr && std::holds_alternative<operators::Pad>(pad->kind) ? pad : nullptr;
    };
    const Operator* pad = pad_of();
    if (pad == nullptr || !pads_zeros(std::get<operators::Pad>(pad->kind))) continue;
    const auto& p = std::get<operators::Pad>(pad->kind);
    if (const auto* image = std::get_if<operators::Conv2d>(&op.kind)) {
      if (const auto with = with_margins(*image, p, network[op.inputs[1]].shape))
        op.kind = *with, op.inputs[0] = pad->inputs[0];
    } else if (const auto* volume = std::get_if<operators::Conv3d>(&op.kind)) {
      if (const auto with = with_margins(*volume, p, network[op.inputs[1]].shape))
        op.kind = *with, op.inputs[0] = pad->inputs[0];
    }
  }
  return out;
}

}  // namespace unisono::network
