#include "passes/log.hpp"

#include <fmt/format.h>

#include "unisono/text.hpp"

namespace unisono::passes {

Log record_pipeline(const Graph& graph) {
  Log log;
  std::string before = print(graph);
  log.result = run_pipeline(graph, [&](const Pass& pass, const Graph&, const Graph& after) {
    const std::string text = print(after);
    log.passes.push_back({std::string(pass.name), std::string(pass.purpose), pass.exact, text != before, text});
    before = text;
  });
  return log;
}

std::string to_string(const std::vector<LogEntry>& log) {
  std::string text;
  for (const LogEntry& e : log) {
    text += fmt::format("{}-- {}: {} ({})\n", text.empty() ? "" : "\n", e.pass, e.purpose,
                        e.exact ? "exact" : "may reassociate");
    text += e.changed ? e.text : "(unchanged)";
    if (text.back() != '\n') text += '\n';
  }
  return text;
}

}  // namespace unisono::passes
