#include "jit/compile_error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace unisono::jit {
namespace {

/// Errors stand at the beginning, the count of them at the end: both are kept.
std::string shortened(const std::string& log) {
  constexpr std::size_t head = 12000, tail = 4000;
  if (log.size() <= head + tail) return log;
  return fmt::format("{}\n… {} bytes left out …\n{}", log.substr(0, head), log.size() - head - tail,
                     log.substr(log.size() - tail));
}

}  // namespace

std::string message_of_failure(const Request& request, const Compiled& compiled, const Kept& kept) {
  const std::string source = kept.problem.empty() ? kept.source.string() : fmt::format("not kept: {}", kept.problem);
  std::string log = shortened(compiled.log);
  while (!log.empty() && log.back() == '\n') log.pop_back();
  return fmt::format("'{}' does not compile\n  command: {}\n  source:  {}\n  log:\n{}", request.title, compiled.command,
                     source, log.empty() ? "(the compiler said nothing)" : log);
}

std::string message_of_missing_kernel(const Request& request, const std::map<std::string, Resources>& kernels) {
  std::vector<std::string> names;
  names.reserve(kernels.size());
  for (const auto& [name, resources] : kernels) names.push_back(name);
  return fmt::format("'{}': the binary has no kernel '{}'; it has: {}", request.title, request.entry,
                     names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

std::string message_of_missing_compiler(const std::string& what, const std::vector<std::string>& looked_at,
                                        const std::string& advice) {
  std::string text = fmt::format("no {} was found; looked at:", what);
  for (const std::string& place : looked_at) text += "\n  " + place;
  return text + "\n" + advice;
}

}  // namespace unisono::jit
