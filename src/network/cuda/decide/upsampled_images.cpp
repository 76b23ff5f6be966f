#include "network/cuda/decide/upsampled_images.hpp"

#include <fmt/format.h>

#include "network/cuda/decide/passes.hpp"

namespace unisono::network::gpu {

namespace {

constexpr double upsampling_launch_us =
    3;  ///< what a kernel costs that only moves memory: as the plans' cost model has it

// A launch that upsamples the image: it reads a pixel and writes four
double upsampling_us(const PlanningInput& in, const Operator& op) {
  return upsampling_launch_us +
         2e-6 * 5 * static_cast<double>(element_count(in.sizes(op.inputs[0]))) / in.device.memory_tbps;
}

}  // namespace

bool upsamples(const Operator& op) { return std::holds_alternative<operators::UpsampledConv2d>(op.kind); }

std::optional<ConvTranspose2d> transposed_form(const Contraction& given, Form form) {
  if (const auto* t = std::get_if<ConvTranspose2d>(&given)) return *t;
  if (form != Form::phases) return std::nullopt;
  const auto& c = std::get<Conv2d>(given);
  ConvTranspose2d t{
      .n = c.n, .h = c.h / 2, .w = c.w / 2, .c = c.c, .k = c.k, .r = c.r + 1, .s = c.s + 1, .stride = {2, 2}};
  for (std::size_t i = 0; i < 4; ++i) t.pad[i] = (i % 2 == 0 ? c.r : c.s) - 1 - c.pad[i];
  return t;
}

PitchedTensor image_of(const PlanningInput& in, const Operator& op, Form form) {
  if (form != Form::upsampled) return in.element_tensor(op.inputs[0]);
  return {{}, in.fused.style.pitch(column_count(in.sizes(op.inputs[0]))), in.element};
}

Sizes image_sizes(const PlanningInput& in, const Operator& op, Form form) {
  Sizes s = in.sizes(op.inputs[0]);
  if (form == Form::upsampled) s[2] *= 2, s[3] *= 2;
  return s;
}

KernelChoice faster_form(const PlanningInput& in, const Operator& op, const std::function<KernelChoice(Form)>& make) {
  if (!upsamples(op)) return make(Form::given);
  KernelChoice phases = make(Form::phases), upsampled = make(Form::upsampled);
  if (!upsampled.kernel) return phases;
  const double us = upsampled.kernel->lowered.plan().predicted_us + upsampling_us(in, op);
  if (!phases.kernel) {
    upsampled.kernel->how += fmt::format(", of an upsampled image: not by parity phases: {}", phases.refusal->first());
    return upsampled;
  }
  const double by_phases = phases.kernel->lowered.plan().predicted_us;
  if (by_phases <= us) return phases;
  upsampled.kernel->how +=
      fmt::format(", of an upsampled image: {:.1f} us predicted, {:.1f} by parity phases", us, by_phases);
  return upsampled;
}

}  // namespace unisono::network::gpu
