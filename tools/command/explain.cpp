#include "command/commands.hpp"
#include "command/convolution.hpp"
#include "command/explain_cuda.hpp"
#include "command/explain_graph.hpp"
#include "command/explain_model.hpp"
#include "command/model.hpp"
#include "command/output.hpp"
#include "command/subject.hpp"
#include "explore/exploration.hpp"
#include "media/file.hpp"
#include "unisono/error.hpp"
#include "unisono/executable.hpp"
#include "unisono/visitor.hpp"

namespace unisono::command {
namespace {

// Nothing but the header, so that it can be written to a file
int print_visitor(const ExplainOptions& options, const Graph& graph) {
  if (options.json || !options.plan.empty() || !options.dot.empty() || !options.svg.empty() || !options.html.empty() ||
      !options.assembly.empty())
    throw UserError(
        "--visitor prints a CUDA header and nothing else: leave out --json, --plan, --dot, --svg, --html and --asm");
  if (options.conv.empty() && options.gemm.empty())
    throw UserError("--visitor needs --conv or --gemm: the extents that the epilogue's operands have");
  const Contraction contraction =
      with_products(parse_contraction(options.conv, options.gemm, "the visitor is made for"), graph);
  VisitorOptions wanted;
  wanted.name = options.visitor, wanted.accurate = options.accurate;
  print(visitor_source(contraction, graph, wanted));
  return 0;
}

// With --device cuda the page has the GPU's kernel
void write_html(const ExplainOptions& options, const Graph& graph) {
  CompileOptions compile;
  compile.device = Device::cuda, compile.plan = options.plan, compile.accurate = options.accurate;
  std::optional<Contraction> contraction;
  if (options.cuda)
    contraction = with_products(parse_contraction(options.conv, options.gemm, "--device cuda plans for"), graph);
  media::write_file(options.html, explore::page_of(explore::explore(graph, contraction, compile, options.gpu)));
}

int explain_text(const ExplainOptions& options) {
  if (!options.region.empty()) throw UserError("--region is for models; an epilogue's text is one region");
  if (!options.dims.empty() || !options.shapes.empty())
    throw UserError("--dim and --shape are for models; an epilogue's text has no extents");
  const auto [text, source] = find_text(options.subject);
  const Graph graph = parse_text(text, source, options.functions);
  if (!options.visitor.empty()) return print_visitor(options, graph);
  if (!options.html.empty()) write_html(options, graph);
  if (options.cuda) return explain_cuda(options, graph);
  GraphExplanation explanation = explain_graph(graph);
  if (!options.conv.empty() || !options.gemm.empty()) {
    const Contraction contraction =
        with_products(parse_contraction(options.conv, options.gemm, "the CPU's kernel is made for"), graph);
    explanation.kernel = compile(contraction, graph).describe();
  }
  write_drawings(explanation, options.dot, options.svg);
  print(options.json ? to_json(explanation) : to_text(explanation));
  return 0;
}

}  // namespace

int explain(const ExplainOptions& options) {
  if (!options.cuda && (!options.plan.empty() || (options.accurate && options.visitor.empty())))
    throw UserError("--plan and --accurate need --device cuda; --accurate also works with --visitor");
  if (!options.cuda && !options.assembly.empty()) throw UserError("--asm needs --device cuda: SASS is code of a GPU");
  if (is_model(options.subject) && !(options.conv.empty() && options.gemm.empty() && options.plan.empty() &&
                                     !options.accurate && options.functions.empty() && options.visitor.empty()))
    throw UserError("--conv, --gemm, --plan, --accurate, --function and --visitor are for one epilogue's text");
  return is_model(options.subject) ? explain_model(options) : explain_text(options);
}

}  // namespace unisono::command
