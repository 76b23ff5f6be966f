#include "command/explain_cuda.hpp"

#include <fmt/format.h>

#include "command/convolution.hpp"
#include "command/json.hpp"
#include "command/output.hpp"
#include "explain.hpp"
#include "media/file.hpp"
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
  }
  return "";
}

std::string to_json(const cuda::Explanation& e) {
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
                       {"origin", e.origin},
                       {"predicted_us", e.predicted_us},
                       {"workspace_bytes", e.workspace_bytes},
                       {"reasons", e.reasons},
                       {"fields", fields},
                       {"source", e.source}};
  return dump(object);
}

}  // namespace

int explain_cuda(const ExplainOptions& options, const Graph& graph) {
  if (options.conv.empty() == options.gemm.empty())
    throw UserError(
        "--device cuda plans for one convolution or product: give its shape, such as --conv '8,64,64,320->320,3x3' or "
        "--gemm '512,1024->4096'");
  if (!options.dot.empty() || !options.svg.empty())
    throw UserError("--dot and --svg draw the graph; leave --device cuda out for them");
  CompileOptions compile;
  compile.device = Device::cuda;
  compile.plan = options.plan;
  compile.accurate = options.accurate;
  const cuda::Explanation e = cuda::explain(
      options.gemm.empty() ? Contraction(parse_convolution(options.conv)) : Contraction(parse_product(options.gemm)),
      graph, compile);
  print(options.json ? to_json(e) : fmt::format("{}\n{}", to_text(e), e.source));
  return 0;
}

}  // namespace unisono::command
