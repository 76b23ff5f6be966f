#include "command/explain_cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "command/assembly.hpp"
#include "command/convolution.hpp"
#include "command/json.hpp"
#include "command/kernel_problem.hpp"
#include "command/output.hpp"
#include "command/plan_legend.hpp"
#include "explain.hpp"
#include "explore/roofline.hpp"
#include "lower/lower.hpp"
#include "media/file.hpp"
#include "runtime/cuda/backend.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

std::string kind_of(const codegen::Field& f) {
  switch (f.kind) {
    case codegen::Field::Kind::operand_pointer: return "operand";
    case codegen::Field::Kind::operand_value: return "value";
    case codegen::Field::Kind::store_pointer: return "store";
    case codegen::Field::Kind::extent: return "extent";
    case codegen::Field::Kind::pitch: return "pitch";
    case codegen::Field::Kind::operand_step: return "step";
    case codegen::Field::Kind::store_step: return "step of a store";
    case codegen::Field::Kind::operand_vectors: return "vectors";
    case codegen::Field::Kind::pointer: return "captured";
  }
  return "";
}

/// What the predicted time means for this contraction.
struct Prediction {
  double us = 0, tflops = 0;
  explore::Roofline peaks;
  double percent() const { return 100 * peaks.us / us; }
};

Prediction prediction_of(const Contraction& contraction, const Graph& graph, const cuda::Explanation& e) {
  return {.us = e.predicted_us,
          .tflops = flop(contraction) / (1e6 * e.predicted_us),
          .peaks = explore::roofline_of(contraction, graph, e.planned_for)};
}

std::string to_text(const Prediction& p) {
  return fmt::format(
      "predicted rate: {:.3g} TFLOP/s, {:.0f} % of roofline ({:.2f} us for the contraction and its tensors, at {:.3g} "
      "TFLOP/s and {:.3g} TB/s)\n",
      p.tflops, p.percent(), p.peaks.us, p.peaks.tflops, p.peaks.tbps);
}

std::string to_json(const cuda::Explanation& e, const Prediction& p) {
  using nlohmann::json;
  json fields = json::array();
  for (const codegen::Field& f : e.fields)
    fields.push_back(
        {{"kind", kind_of(f)}, {"name", f.name}, {"dtype", to_string(f.dtype)}, {"axes", to_string(f.axes)}});
  const json object = {{"kind", "cuda"},
                       {"contraction", e.contraction},
                       {"device", e.device},
                       {"device_present", e.device_note.empty()},
                       {"device_note", e.device_note},
                       {"plan", e.plan},
                       {"plan_override", to_string(e.plan_override)},
                       {"origin", e.origin},
                       {"predicted_us", e.predicted_us},
                       {"predicted_tflops", p.tflops},
                       {"roofline_percent", p.percent()},
                       {"roofline", {{"tflops", p.peaks.tflops}, {"tbps", p.peaks.tbps}, {"us", p.peaks.us}}},
                       {"workspace_bytes", e.workspace_bytes},
                       {"reasons", e.reasons},
                       {"fields", fields},
                       {"source", e.source}};
  return dump(object);
}

}  // namespace

int explain_cuda(const ExplainOptions& options, const Graph& graph) {
  if (!options.dot.empty() || !options.svg.empty())
    throw UserError("--dot and --svg draw the graph; leave --device cuda out for them");
  CompileOptions compile;
  compile.device = Device::cuda;
  compile.plan = options.plan;
  compile.accurate = options.accurate;
  const Contraction contraction =
      with_products(parse_contraction(options.conv, options.gemm, "--device cuda plans for"), graph);
  const cuda::Explanation e = cuda::explain(contraction, graph, compile, options.gpu);
  if (!options.assembly.empty())
    write_assembly(options.assembly,
                   {{lower::lower(contraction, graph, compile, e.planned_for).value().request(), {}}});
  const Prediction p = prediction_of(contraction, graph, e);
  print(options.json ? to_json(e, p) : fmt::format("{}{}{}\n{}", to_text(e), to_text(p), legend_of(e.plan), e.source));
  return 0;
}

}  // namespace unisono::command
