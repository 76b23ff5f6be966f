/// Judges networks: reads paths of models with their data (case_file.hpp) from standard input, one a line, and writes
/// one line of JSON for each. It lives as long as there are paths; a driver that misses an answer knows what it died
/// of.
///
/// usage: network_judge [--gpu bf16|f16] [--gradients] [--kernels | --compile] [--jobs N]
///
/// --gradients judges the networks of their gradients
/// --gpu       on the GPU instead of the CPU
/// --kernels   only says which kernels each network asks of the compiler, as hashes; needs no GPU
/// --compile   reads all paths first, compiles their kernels in parallel into the cache, and says how many there are

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "random_networks/gpu_kernels.hpp"
#include "random_networks/judge.hpp"
#include "unisono/error.hpp"

namespace {

using namespace unisono;
using nlohmann::ordered_json;

struct Task {
  NetworkOptions options{.threads = 1};
  bool kernels = false, compile = false, gradients = false;
};

Task read_arguments(int argc, char** argv) {
  Task task;
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if (a == "--kernels") {
      task.kernels = true;
    } else if (a == "--gradients") {
      task.gradients = true;
    } else if (a == "--compile") {
      task.compile = true;
    } else if (a == "--jobs" && !value.empty()) {
      task.options.threads = std::stoi(argv[++i]);
    } else if (a == "--gpu" && (value == "bf16" || value == "f16")) {
      task.options.device = Device::cuda;
      task.options.precision = value == "f16" ? DType::f16 : DType::bf16;
      ++i;
    } else {
      throw UserError(
          fmt::format("unknown option {}; expected --gpu bf16|f16, --gradients, --kernels, --compile, --jobs N", a));
    }
  }
  return task;
}

ordered_json judged(const std::string& path, const Task& task) {
  const test::Verdict v = test::judge(test::read_model_with_data(path), task.options, task.gradients);
  ordered_json j{{"verdict", to_string(v.kind)}};
  if (v.kind != test::Verdict::Kind::agrees) j["stage"] = v.stage, j["text"] = v.text;
  j["worst"] = v.worst;
  j["weak"] = v.weak, j["close"] = v.close, j["reference"] = v.reference;
  j["operators"] = v.operators, j["kernels"] = v.kernels, j["epilogue"] = v.epilogue;
  return j;
}

ordered_json kernels(const std::string& path, const NetworkOptions& options) {
  try {
    return {{"kernels", test::kernels_of(test::read_model_with_data(path), options)}};
  } catch (const UserError& error) {
    return {{"refused", error.what()}};
  } catch (const Unsupported& error) {
    return {{"refused", error.what()}};
  }
}

std::size_t compile_all(const NetworkOptions& options) {
  std::vector<std::string> paths;
  for (std::string path; std::getline(std::cin, path);) paths.push_back(path);
  return test::compile_kernels(paths, options);
}

int run(int argc, char** argv) {
  const Task task = read_arguments(argc, argv);
  if (task.compile) {
    fmt::print("{}\n", ordered_json{{"kernels", compile_all(task.options)}}.dump());
    return 0;
  }
  for (std::string path; std::getline(std::cin, path);) {
    ordered_json j = task.kernels ? kernels(path, task.options) : judged(path, task);
    j["path"] = path;
    fmt::print("{}\n", j.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "network_judge: {}\n", error.what());
    return 2;
  }
}
