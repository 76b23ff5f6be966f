#include "command/kernel_subjects.hpp"

#include "bench/cases.hpp"
#include "command/convolution.hpp"
#include "command/subject.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
void visit_subject(const std::string& subject, const KernelSubjects& options, const KernelVisitor& visitor) {
  const bool shaped =
      !options.conv.empty() || !options.gemm.empty() || !options.plan.empty() || !options.functions.empty();
  if (is_model(subject)) {
    if (shaped)
      throw UserError("--conv, --gemm, --plan and --function are for an epilogue's text, and " + subject +
                      " is a model");
    const Model model = load_model(subject);
    NetworkOptions network;
    network.device = Device::cuda;
    network.precision = options.precision;
    return visitor.network(model.network, network,
                           input_shapes(model.network, dims_of(model.network, options.dims, options.shapes)));
  }
  if (!options.dims.empty() || !options.shapes.empty())
    throw UserError("--dim and --shape are for models, and '" + subject + "' is not a model");
  const auto [text, source] = find_text(subject);
  if (!text.starts_with("suite ") && text.find("\nsuite ") == std::string::npos) {
    const Contraction space = parse_contraction(options.conv, options.gemm, "an epilogue's text is meant for");
    const Graph graph = parse_text(text, source, options.functions);
    return visitor.kernel(with_products(space, graph), graph, options.plan);
  }
  if (shaped)
    throw UserError("--conv, --gemm, --plan and --function are for an epilogue's text; the cases in " + source +
                    " say theirs");
  for (const bench::Case& c : bench::parse_suite(text, source).cases) visitor.kernel(c.contraction(), c.graph, c.plan);
}

}  // namespace unisono::command
