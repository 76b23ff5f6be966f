#include "passes/log.hpp"

#include <fmt/format.h>

#include "coda/text.hpp"

namespace coda::passes {

std::vector<LogEntry> record_pipeline(const Graph& graph) {
  std::vector<LogEntry> log;
  run_pipeline(graph, [&](const Pass& pass, const Graph& before, const Graph& after) {
    log.push_back({std::string(pass.name), std::string(pass.purpose), pass.exact, !structurally_equal(before, after),
                   print(after)});
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

}  // namespace coda::passes
