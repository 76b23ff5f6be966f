#include "gpu_run.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "network/onnx/importer.hpp"
#include "node_run.hpp"
#include "unisono/error.hpp"

namespace unisono::test {
namespace {

struct Pattern {
  std::string message, reason;
  int used = 0;

  bool fits(const NodeCase& c, const Outcome& o) const {
    const std::string text = message.starts_with("test_") ? c.name + ": " + o.text : o.text;
    return ::fnmatch(message.c_str(), text.c_str(), 0) == 0;
  }
};

std::vector<Pattern> read_patterns(const std::string& path) {
  std::vector<Pattern> list;
  std::ifstream file(path);
  if (!file) throw UserError(path + ": cannot be read");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto bar = line.find(" | ");
    if (bar == std::string::npos) throw UserError(fmt::format("{}: '{}' gives no reason", path, line));
    if (line.starts_with("* no kernel")) throw UserError(fmt::format("{}: '{}' names no operator", path, line));
    list.push_back({line.substr(0, bar), line.substr(bar + 3)});
  }
  return list;
}

bool is_imported(const NodeCase& c) {
  static const std::set<std::string, std::less<>> known = [] {
    std::set<std::string, std::less<>> names;
    for (const auto name : network::onnx_import::supported_operators()) names.emplace(name);
    return names;
  }();
  return std::all_of(c.operators.begin(), c.operators.end(), [](const auto& op) { return known.contains(op); });
}

}  // namespace

bool run_on_gpu(const std::vector<std::filesystem::path>& folders, const GpuRun& what) {
  std::vector<Pattern> patterns = read_patterns(what.refusals);
  NetworkOptions options;
  options.device = Device::cuda;
  options.precision = what.precision == "f16" ? DType::f16 : DType::bf16;
  int agreed = 0, on_host = 0, undecided = 0, refused = 0, failures = 0, number = 0;
  const auto fail = [&](const std::string& name, const std::string& text) {
    ++failures;
    fmt::print("FAILED {}: {}\n", name, text);
  };
  for (const auto& folder : folders) {
    if (!what.only.empty() && ::fnmatch(what.only.c_str(), folder.filename().c_str(), 0) != 0) continue;
    const NodeCase c = read_case(folder);
    if (!is_imported(c) || run_case(c, false).kind != Outcome::Kind::passed || number++ % what.every != what.first)
      continue;
    const Outcome o = run_case(c, false, options);
    agreed += o.kind == Outcome::Kind::passed ? 1 : 0;
    on_host += o.on_host ? 1 : 0;
    undecided += o.compared ? 0 : 1;
    refused += o.kind == Outcome::Kind::refused ? 1 : 0;
    if (o.kind == Outcome::Kind::failed) fail(c.name, o.text);
    if (o.kind != Outcome::Kind::refused) continue;
    const auto listed = std::find_if(patterns.begin(), patterns.end(), [&](const Pattern& p) { return p.fits(c, o); });
    if (listed == patterns.end()) {
      fail(c.name, "refused: " + o.text);
    } else {
      ++listed->used;
    }
  }
  for (const Pattern& p : patterns)
    if (what.only.empty() && what.every == 1 && p.used == 0)
      fail(p.message, "is listed as refused, but no test needs that");
  if (agreed < what.at_least) fail("all", fmt::format("only {} agree; expected at least {}", agreed, what.at_least));
  if (on_host > what.on_host)
    fail("all", fmt::format("{} are computed in part on the host; expected at most {}", on_host, what.on_host));
  fmt::print(
      "node tests on a GPU: {} agree, {} of them in part on the host, {} with an output of which rounding leaves "
      "nothing to compare; {} refused with a listed reason, {} failed\n",
      agreed, on_host, undecided, refused, failures);
  for (const Pattern& p : patterns) fmt::print("  {:3} refused: {}\n", p.used, p.reason);
  return failures == 0;
}

}  // namespace unisono::test
