/// Runs ONNX's backend node tests.
///
/// usage: onnx_node_tests --data FOLDER[:FOLDER] --refusals FILE [--docs networks-onnx.md] [--only PATTERN]
///        onnx_node_tests --data FOLDER[:FOLDER] --gpu bf16|f16 --refusals FILE --at-least N [--on-host N]
///        [--every N [--first K]] [--only PATTERN]
///        onnx_node_tests --data FOLDER[:FOLDER] --definitions FILE [--only PATTERN]
///
/// A FOLDER is that of the package, onnx/backend/test/data, whose models that came from PyTorch are run too, or what
/// make_node_cases.py wrote. Every test all of whose operators the importer knows is run twice: with the extents that
/// its model gives, and with symbols in their place. A wrong answer fails. So does a refusal of the first kind that
/// FILE does not list with its reason (or that comes from an opset before 11), a line of FILE that no test needs, and
/// an operator that the page does not list.
///
/// With --gpu: what passes on the CPU runs on the GPU and agrees with the float64 reference, or is refused with a
/// message that FILE has a pattern for; at least so many tests (of every Nth from K on) agree, and at most so many
/// have host steps.
///
/// With --definitions: the float64 definitions of the operators are compared with the same outputs
/// (definition_run.hpp).

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "definition_run.hpp"
#include "gpu_run.hpp"
#include "network/onnx/importer.hpp"
#include "node_run.hpp"
#include "unisono/error.hpp"

namespace {

using namespace unisono;
using test::Outcome;

// What the importer must know
constexpr const char* promised[] = {"Conv",
                                    "ConvTranspose",
                                    "Gemm",
                                    "MatMul",
                                    "GroupNormalization",
                                    "InstanceNormalization",
                                    "LayerNormalization",
                                    "BatchNormalization",
                                    "Add",
                                    "Sub",
                                    "Mul",
                                    "Div",
                                    "Pow",
                                    "Sqrt",
                                    "Exp",
                                    "Log",
                                    "Erf",
                                    "Neg",
                                    "Abs",
                                    "Clip",
                                    "Min",
                                    "Max",
                                    "Where",
                                    "Equal",
                                    "Less",
                                    "Greater",
                                    "MaxPool",
                                    "AveragePool",
                                    "GlobalAveragePool",
                                    "Resize",
                                    "Upsample",
                                    "DepthToSpace",
                                    "SpaceToDepth",
                                    "Concat",
                                    "Split",
                                    "Slice",
                                    "Pad",
                                    "Tile",
                                    "Expand",
                                    "Reshape",
                                    "Flatten",
                                    "Transpose",
                                    "Squeeze",
                                    "Unsqueeze",
                                    "Gather",
                                    "Softmax",
                                    "ReduceMean",
                                    "ReduceSum",
                                    "ReduceMax",
                                    "ArgMax",
                                    "Constant",
                                    "ConstantOfShape",
                                    "Identity",
                                    "Dropout",
                                    "Cast",
                                    "Shape",
                                    "Relu",
                                    "Sigmoid",
                                    "Tanh",
                                    "LeakyRelu",
                                    "Elu",
                                    "Gelu",
                                    "HardSigmoid",
                                    "HardSwish",
                                    "Mish",
                                    "Softplus"};

struct Refusal {
  std::string pattern, reason;
  int used = 0;
};

std::vector<Refusal> read_refusals(const std::string& path) {
  std::vector<Refusal> list;
  std::ifstream file(path);
  if (!file) throw UserError(path + ": cannot be read");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto end = line.find(' ');
    if (end == std::string::npos) throw UserError(fmt::format("{}: '{}' gives no reason", path, line));
    list.push_back({line.substr(0, end), line.substr(line.find_first_not_of(' ', end))});
  }
  return list;
}

class Runner {
 public:
  Runner(std::vector<Refusal> refusals, std::string only) : refusals_(std::move(refusals)), only_(std::move(only)) {
    for (const auto name : network::onnx_import::supported_operators()) known_.emplace(name);
  }

  void run(const std::filesystem::path& folder) {
    if (!only_.empty() && ::fnmatch(only_.c_str(), folder.filename().c_str(), 0) != 0) return;
    const test::NodeCase c = test::read_case(folder);
    if (!std::all_of(c.operators.begin(), c.operators.end(), [&](const auto& op) { return known_.contains(op); })) {
      ++outside_;
      return;
    }
    fixed(c);
    const Outcome o = test::run_case(c, true);
    if (o.kind == Outcome::Kind::failed) fail(c.name + " with symbols", o.text);
    ++symbolic_[static_cast<std::size_t>(o.kind)];
    if (!only_.empty() && o.kind == Outcome::Kind::refused) fmt::print("{} with symbols: {}\n", c.name, o.text);
  }

  bool finish() {
    for (const Refusal& r : refusals_)
      if (only_.empty() && r.used == 0) fail(r.pattern, "is listed as refused, but no test needs that");
    fmt::print(
        "node tests: {} passed, {} refused with a listed reason, {} refused for an opset before 11, {} failed; {} have "
        "operators that are not imported\n",
        fixed_[0], fixed_[1], old_, fixed_[2], outside_);
    fmt::print("the same with symbols for extents: {} passed, {} refused, {} failed\n", symbolic_[0], symbolic_[1],
               symbolic_[2]);
    for (const Refusal& r : refusals_) fmt::print("  {:3} refused {}: {}\n", r.used, r.pattern, r.reason);
    return failures_ == 0;
  }

  void fail(const std::string& name, const std::string& text) {
    ++failures_;
    fmt::print("FAILED {}: {}\n", name, text);
  }

  void check_lists(const std::string& docs) {
    for (const char* op : promised)
      if (!known_.contains(op)) fail(op, "is not imported");
    if (docs.empty()) return;
    std::ifstream file(docs);
    const std::string page(std::istreambuf_iterator<char>(file), {});
    for (const auto& op : known_)
      if (page.find("`" + op + "`") == std::string::npos) fail(op, "is imported, but " + docs + " does not list it");
  }

 private:
  void fixed(const test::NodeCase& c) {
    Outcome o = test::run_case(c, false);
    const auto listed = std::find_if(refusals_.begin(), refusals_.end(), [&](const Refusal& r) {
      return ::fnmatch(r.pattern.c_str(), c.name.c_str(), 0) == 0;
    });
    if (o.kind == Outcome::Kind::refused && c.opset < 11) {
      ++old_;
      return;
    }
    if (o.kind == Outcome::Kind::refused && listed == refusals_.end()) {
      o = {Outcome::Kind::failed, "refused: " + o.text};
    } else if (o.kind == Outcome::Kind::refused) {
      ++listed->used;
    }
    if (o.kind == Outcome::Kind::failed) fail(c.name, o.text);
    ++fixed_[static_cast<std::size_t>(o.kind)];
  }

  std::vector<Refusal> refusals_;
  std::string only_;
  std::set<std::string, std::less<>> known_;
  int fixed_[3] = {}, symbolic_[3] = {}, outside_ = 0, old_ = 0, failures_ = 0;
};

using Options = std::map<std::string, std::string>;

Options read_options(int argc, char** argv) {
  Options options{{"--data", ""},        {"--refusals", ""},  {"--docs", ""},   {"--only", ""},
                  {"--gpu", ""},         {"--at-least", "0"}, {"--every", "1"}, {"--on-host", "1000000"},
                  {"--definitions", ""}, {"--first", "0"}};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!options.contains(argv[i])) throw UserError(fmt::format("unknown option {}", argv[i]));
    options[argv[i]] = argv[i + 1];
  }
  return options;
}

std::vector<std::filesystem::path> case_folders(const std::filesystem::path& data) {
  if (!std::filesystem::is_directory(data))
    throw UserError(
        "the node tests of the Python package onnx are not there; run scripts/setup.sh test, and configure again");
  std::vector<std::filesystem::path> folders;
  for (const char* group : {"node", "simple", "pytorch-converted", "pytorch-operator"})
    if (std::filesystem::is_directory(data / group))
      for (const auto& entry : std::filesystem::directory_iterator(data / group))
        if (std::filesystem::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  if (folders.empty()) throw UserError(fmt::format("{}: there are no node tests in it", data.string()));
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// Those of several folders, separated by colons
std::vector<std::filesystem::path> all_case_folders(const std::string& data) {
  std::vector<std::filesystem::path> all;
  std::istringstream list(data);
  for (std::string folder; std::getline(list, folder, ':');)
    for (auto& one : case_folders(folder)) all.push_back(std::move(one));
  if (all.empty()) throw UserError("--data FOLDER[:FOLDER] is missing");
  return all;
}

int run(int argc, char** argv) {
  Options options = read_options(argc, argv);
  const auto folders = all_case_folders(options["--data"]);
  if (!options["--definitions"].empty())
    return test::check_definitions(folders, options["--definitions"], options["--only"]) ? 0 : 1;
  if (!options["--gpu"].empty()) {
    const test::GpuRun what{options["--refusals"],
                            options["--only"],
                            options["--gpu"],
                            std::stoi(options["--every"]),
                            std::stoi(options["--first"]),
                            std::stoi(options["--at-least"]),
                            std::stoi(options["--on-host"])};
    return test::run_on_gpu(folders, what) ? 0 : 1;
  }
  Runner runner(read_refusals(options["--refusals"]), options["--only"]);
  runner.check_lists(options["--docs"]);
  for (const auto& f : folders) runner.run(f);
  return runner.finish() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "onnx_node_tests: {}\n", error.what());
    return 2;
  }
}
