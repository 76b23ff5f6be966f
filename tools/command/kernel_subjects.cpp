#include "command/kernel_subjects.hpp"

#include "bench/cases.hpp"
#include "command/convolution.hpp"
#include "command/subject.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

Contraction contraction_of(const KernelSubjects& options) {
  if (options.conv.empty() == options.gemm.empty())
    throw UserError(
        "an epilogue's text is meant for one convolution or product: give its shape, such as "
        "--conv '8,64,64,320->320,3x3' or --gemm '512,1024->4096'");
  if (options.gemm.empty()) return parse_convolution(options.conv);
  return parse_product(options.gemm);
}

}  // namespace

void visit_subject(const std::string& subject, const KernelSubjects& options, const KernelVisitor& visitor) {
  const bool shaped = !options.conv.empty() || !options.gemm.empty() || !options.plan.empty();
  if (is_model(subject)) {
    if (shaped) throw UserError("--conv, --gemm and --plan are for an epilogue's text, and " + subject + " is a model");
    const Model model = load_model(subject);
    NetworkOptions network;
    network.device = Device::cuda;
    network.precision = options.precision;
    return visitor.network(model.network, network, input_shapes(model.network, options.dims));
  }
  if (!options.dims.empty()) throw UserError("--dim is for models, and '" + subject + "' is none");
  const auto [text, source] = find_text(subject);
  if (!text.starts_with("suite ") && text.find("\nsuite ") == std::string::npos)
    return visitor.kernel(contraction_of(options), parse_text(text, source), options.plan);
  if (shaped)
    throw UserError("--conv, --gemm and --plan are for an epilogue's text; the cases in " + source + " say theirs");
  for (const bench::Case& c : bench::parse_suite(text, source).cases) visitor.kernel(c.contraction(), c.graph, c.plan);
}

}  // namespace unisono::command
