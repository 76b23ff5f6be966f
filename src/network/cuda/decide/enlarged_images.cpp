#include "network/cuda/decide/enlarged_images.hpp"

#include <fmt/format.h>

#include "network/cuda/decide/passes.hpp"

namespace unisono::network::gpu {

namespace {

constexpr double launch_us = 3;  ///< of a kernel that only moves memory: as the plans' cost model has it

// A launch that enlarges the image: it reads a pixel and writes four
double enlarging_us(const PlanningInput& in, const Operator& op) {
  return launch_us + 2e-6 * 5 * static_cast<double>(element_count(in.sizes(op.inputs[0]))) / in.device.memory_tbps;
}

}  // namespace

bool enlarges(const Operator& op) { return std::holds_alternative<operators::EnlargedConv2d>(op.kind); }

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
  if (form != Form::enlarged) return in.tensor(op.inputs[0]);
  return {{}, in.fused.style.pitch(column_count(in.sizes(op.inputs[0]))), in.element};
}

Sizes image_sizes(const PlanningInput& in, const Operator& op, Form form) {
  Sizes s = in.sizes(op.inputs[0]);
  if (form == Form::enlarged) s[2] *= 2, s[3] *= 2;
  return s;
}

KernelChoice faster_form(const PlanningInput& in, const Operator& op, const std::function<KernelChoice(Form)>& make) {
  if (!enlarges(op)) return make(Form::given);
  KernelChoice phases = make(Form::phases), enlarged = make(Form::enlarged);
  if (!enlarged.kernel) return phases;
  const double us = enlarged.kernel->lowered.plan().predicted_us + enlarging_us(in, op);
  if (!phases.kernel) {
    enlarged.kernel->how += fmt::format(", of an enlarged image: not by parity phases: {}", phases.refusal->first());
    return enlarged;
  }
  const double by_phases = phases.kernel->lowered.plan().predicted_us;
  if (by_phases <= us) return phases;
  enlarged.kernel->how +=
      fmt::format(", of an enlarged image: {:.1f} us predicted, {:.1f} by parity phases", us, by_phases);
  return enlarged;
}

}  // namespace unisono::network::gpu
