#include "explain.hpp"

#include <utility>

#include "unisono/explain.hpp"

namespace unisono {

KernelExplanation explain_kernel(const Contraction& contraction, const Graph& graph, const CompileOptions& options) {
  cuda::Explanation e = cuda::explain(contraction, graph, options);
  KernelExplanation out;
  for (const codegen::Field& f : e.fields) out.arguments.push_back(cuda::title(f));
  out.tensors = std::move(e.tensors);
  out.contraction = std::move(e.contraction);
  out.device = std::move(e.device);
  out.device_note = std::move(e.device_note);
  out.plan = std::move(e.plan);
  out.plan_override = std::move(e.plan_override);
  out.origin = std::move(e.origin);
  out.predicted_us = e.predicted_us;
  out.workspace_bytes = e.workspace_bytes;
  out.takes_slices = e.takes_slices;
  out.reasons = std::move(e.reasons);
  out.source = std::move(e.source);
  return out;
}

std::string to_string(const KernelExplanation& e) {
  cuda::Explanation shown;
  shown.tensors = e.tensors;
  shown.contraction = e.contraction;
  shown.device = e.device;
  shown.device_note = e.device_note;
  shown.plan_override = e.plan_override;
  shown.origin = e.origin;
  shown.reasons = e.reasons;
  return cuda::to_text(shown, e.arguments);
}

}  // namespace unisono
