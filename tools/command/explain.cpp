#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "coda/error.hpp"
#include "coda/text.hpp"
#include "command/commands.hpp"
#include "command/explain_cuda.hpp"
#include "command/explain_graph.hpp"
#include "command/explain_model.hpp"
#include "command/model.hpp"
#include "command/output.hpp"
#include "media/file.hpp"

namespace coda::command {
namespace {

constexpr std::int64_t text_bytes = 1 << 20;  // as parse() takes

std::string read_text(const std::filesystem::path& path) {
  const auto bytes = media::read_file(path, {.bytes = text_bytes});
  return {bytes.begin(), bytes.end()};
}

/// No name of a file has an equals sign or a blank in it, one hopes; an epilogue always has.
bool looks_like_text(const std::string& subject) { return subject.find_first_of("= \n;") != std::string::npos; }

/// The epilogue that `subject` is or names, and where it comes from.
std::pair<std::string, std::string> find_text(const std::string& subject) {
  if (subject == "-") return {read_text("/dev/stdin"), "standard input"};
  std::error_code ignored;
  if (std::filesystem::exists(subject, ignored)) return {read_text(subject), subject};
  if (looks_like_text(subject)) return {subject, ""};
  throw UserError(
      fmt::format("'{}' is no file, and no epilogue such as 'y = silu(acc + bias[n]); store y : bf16'", subject));
}

int explain_text(const ExplainOptions& options) {
  if (!options.region.empty()) throw UserError("--region is for models; an epilogue's text is one region");
  if (!options.dims.empty()) throw UserError("--dim is for models; an epilogue's text knows no extents");
  const auto [text, source] = find_text(options.subject);
  Graph graph;
  try {
    graph = parse(text);
  } catch (const UserError& error) {
    if (source.empty()) throw;
    throw UserError(fmt::format("{}: {}", source, error.what()));
  }
  if (options.cuda) return explain_cuda(options, graph);
  const GraphExplanation explanation = explain_graph(graph);
  write_drawings(explanation, options.dot, options.svg);
  print(options.json ? to_json(explanation) : to_text(explanation));
  return 0;
}

}  // namespace

int explain(const ExplainOptions& options) {
  if (!options.cuda && (!options.conv.empty() || !options.gemm.empty() || !options.plan.empty() || options.accurate))
    throw UserError("--conv, --gemm, --plan and --accurate go with --device cuda");
  if (is_model(options.subject) &&
      !(options.conv.empty() && options.gemm.empty() && options.plan.empty() && !options.accurate))
    throw UserError("--conv, --gemm, --plan and --accurate are for one epilogue's text");
  return is_model(options.subject) ? explain_model(options) : explain_text(options);
}

}  // namespace coda::command
