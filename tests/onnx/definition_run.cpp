#include "definition_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <span>

#include "network/onnx/importer.hpp"
#include "node_case.hpp"
#include "reference/onnx/definitions.hpp"
#include "reference/onnx/evaluate.hpp"
#include "unisono/error.hpp"

namespace unisono::test {

namespace {

float64::Tensors64 read_all(const NodeCase& c, const std::vector<std::string>& names,
                            const std::filesystem::path& folder, const char* prefix) {
  float64::Tensors64 all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto file = folder / fmt::format("{}_{}.pb", prefix, i);
    if (!std::filesystem::exists(file)) continue;
    const CaseTensor t = read_tensor(file, c.types.at(names[i]));
    auto values = float64::as_float64({t.bytes.data(), t.dtype, t.shape, {}}, names[i]);
    std::vector<double> bounds(values.size(), 0.0);
    all[names[i]] = {t.shape, std::move(values), std::move(bounds), t.dtype};
  }
  return all;
}

// The tolerance of ONNX's own runner, and half a unit of the 16-bit types in addition; integers are equal
std::string difference(const float64::Tensor64& expected, const float64::Tensor64& actual) {
  if (expected.shape != actual.shape)
    return fmt::format("shape ({}), expected ({})", fmt::join(actual.shape, ","), fmt::join(expected.shape, ","));
  if (expected.dtype != actual.dtype)
    return fmt::format("dtype {}, expected {}", to_string(actual.dtype), to_string(expected.dtype));
  const double relative =
      !is_float(expected.dtype) ? 0 : 1e-3 + (size_of(expected.dtype) == 2 ? unit_roundoff(expected.dtype) : 0);
  for (std::size_t i = 0; i < expected.value.size(); ++i) {
    const double x = expected.value[i], y = actual.value[i];
    const double absolute = is_float(expected.dtype) ? 1e-7 : 0;
    if (!(x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= absolute + relative * std::abs(x)))
      return fmt::format("element {} is {}, expected {}", i, y, x);
  }
  return "";
}

class DefinitionRunner {
 public:
  explicit DefinitionRunner(const std::string& exceptions) {
    for (const auto name : float64::defined_operators()) defined_.emplace(name);
    std::ifstream file(exceptions);
    if (!file) throw UserError(exceptions + ": cannot be read");
    for (std::string line; std::getline(file, line);)
      if (!line.empty() && line[0] != '#') exceptions_.emplace_back(line.substr(0, line.find(' ')), 0);
  }

  void run(const std::filesystem::path& folder) {
    const NodeCase c = read_case(folder);
    const auto has_definition = [&](const std::string& op) {
      return op == "If" || op == "Loop" || defined_.contains(op);
    };
    if (!std::all_of(c.operators.begin(), c.operators.end(), has_definition)) return;
    try {
      const std::string bytes = c.model.SerializeAsString();
      const float64::OnnxModel model = float64::OnnxModel::parse(std::as_bytes(std::span(bytes)));
      if (c.data.empty()) return;
      for (const auto& data : c.data) compare(c, model, data);
      ++passed_;
      shown_.insert(c.operators.begin(), c.operators.end());
    } catch (const UserError& error) {
      refused(c.name, error.what());
    } catch (const Unsupported& error) {
      refused(c.name, error.what());
    } catch (const std::exception& error) {
      if (!excepted(c.name)) fail(c.name, error.what());
    }
  }

  bool finish(bool all) {
    for (const auto name : network::onnx_import::supported_operators())
      if (!defined_.contains(name)) fail(std::string(name), "is imported, and has no definition in float64");
    for (const char* op : {"If", "Loop"}) shown_.erase(op);  // which have no row: their bodies are evaluated
    for (const std::string& op : defined_)
      if (all && !shown_.contains(op) && !excepted("operator:" + op))
        fail(op, "no test shows that its definition is right");
    for (const auto& [pattern, used] : exceptions_)
      if (all && used == 0) fail(pattern, "is listed as an exception, but nothing needs that");
    fmt::print("definitions: {} of {} operators shown to be right by {} tests; {} tests refused, {} failures\n",
               shown_.size(), defined_.size(), passed_, refused_, failures_);
    return failures_ == 0 && passed_ > 0;
  }

 private:
  static void compare(const NodeCase& c, const float64::OnnxModel& model, const std::filesystem::path& data) {
    const auto expected = read_all(c, c.outputs, data, "output");
    const auto actual = model.evaluate(read_all(c, c.inputs, data, "input"));
    for (const auto& [name, t] : expected)
      if (const std::string text = difference(t, actual.at(name)); !text.empty())
        throw InternalError(fmt::format("output '{}': {}", name, text));
  }

  bool excepted(const std::string& name) {
    bool found = false;
    for (auto& [pattern, used] : exceptions_) {
      if (::fnmatch(pattern.c_str(), name.c_str(), 0) != 0) continue;
      ++used;
      found = true;
    }
    return found;
  }
  void refused(const std::string& name, const std::string& text) {
    ++refused_;
    if (!excepted(name)) fail(name, "refused: " + text);
  }
  void fail(const std::string& name, const std::string& text) {
    ++failures_;
    fmt::print("FAILED {}: {}\n", name, text);
  }

  std::set<std::string, std::less<>> defined_;
  std::set<std::string> shown_;
  std::vector<std::pair<std::string, int>> exceptions_;
  int passed_ = 0, refused_ = 0, failures_ = 0;
};

}  // namespace

bool check_definitions(const std::vector<std::filesystem::path>& folders, const std::string& exceptions,
                       const std::string& only) {
  DefinitionRunner runner(exceptions);
  for (const auto& folder : folders)
    if (only.empty() || ::fnmatch(only.c_str(), folder.filename().c_str(), 0) == 0) runner.run(folder);
  return runner.finish(only.empty());
}

}  // namespace unisono::test
