// Times the way from generated source to a binary in memory: cold (the compiler runs), and warm (the cache has it),
// each in a process of its own that has done nothing before, and again where the compiler is loaded.
//
// usage: unisono_bench_jit [--runs 5] [--compiler nvrtc|nvcc] [--out bench/results/jit.json]

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "lower/lower.hpp"
#include "passes/passes.hpp"
#include "support/replace_file.hpp"
#include "support/subprocess.hpp"
#include "unisono/contraction.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

/// A convolution of bf16 images with everything after it.
struct Case {
  std::int64_t n, h, w, c, k, r;
  std::string name() const { return fmt::format("{},{},{},{},{},{}", n, h, w, c, k, r); }
};

constexpr Case cases[] = {{2, 64, 64, 320, 320, 3},   {2, 32, 32, 640, 640, 3},  {2, 16, 16, 1280, 1280, 3},
                          {8, 64, 64, 320, 320, 3},   {8, 32, 32, 640, 640, 3},  {16, 128, 128, 128, 128, 3},
                          {4, 256, 256, 128, 128, 3}, {32, 56, 56, 256, 256, 3}, {8, 64, 64, 320, 320, 1},
                          {1, 512, 512, 128, 128, 3}, {8, 256, 256, 64, 64, 3}};

constexpr const char* epilogue =
    "h = acc + bias[n]\n"
    "y = silu(group_norm(h, groups=32, scale=gamma[n], shift=beta[n], eps=1e-5))\n"
    "store y : bf16\n";

unisono::jit::Request make_request(const Case& c) {
  unisono::Conv2d conv{.n = c.n, .h = c.h, .w = c.w, .c = c.c, .k = c.k, .r = c.r, .s = c.r};
  conv.pad = {c.r / 2, c.r / 2, c.r / 2, c.r / 2};
  conv.dtype_x = conv.dtype_w = unisono::DType::bf16;
  return unisono::lower::lower(conv, unisono::parse(epilogue), {}, {}).value().request();
}

unisono::jit::Settings settings_of(const std::string& compiler, const fs::path& cache) {
  unisono::jit::Settings s;
  s.compiler = compiler == "nvcc" ? unisono::jit::CompilerKind::nvcc : unisono::jit::CompilerKind::nvrtc;
  s.cache = cache;
  s.warn = [](const std::string& text) { throw unisono::UserError(text); };  // a measurement without a cache is none
  return s;
}

double milliseconds(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// CPU time of all threads of this process so far.
double cpu_milliseconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) * 1e-3;
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double rounded(double value) { return std::round(value * 1000) / 1000; }

/// The process that is measured: the first binary, then the same again by another Jit of this process.
int measure_one(std::size_t index, const std::string& compiler, const fs::path& cache) {
  const unisono::jit::Request request = make_request(cases[index]);
  const double cpu_before = cpu_milliseconds();
  const auto start = Clock::now();
  unisono::jit::Jit jit(settings_of(compiler, cache));
  const unisono::jit::Binary first = jit.compile(request);
  const double first_ms = milliseconds(start), cpu_ms = cpu_milliseconds() - cpu_before;
  const auto again = Clock::now();
  unisono::jit::Jit(settings_of(compiler, cache)).compile(request);
  const double again_ms = milliseconds(again);
  std::cout << json{{"first_ms", first_ms},
                    {"cpu_ms", cpu_ms},
                    {"again_ms", again_ms},
                    {"cached", first.cached},
                    {"kernel", request.title},
                    {"registers", first.resources.registers},
                    {"spill_bytes", first.resources.spill_store_bytes + first.resources.spill_load_bytes},
                    {"cubin_bytes", first.cubin.size()}}
            << "\n";
  return 0;
}

/// Runs measure_one in a new process.
json in_new_process(std::size_t index, const std::string& compiler, const fs::path& cache) {
  const auto outcome = unisono::support::run({.arguments = {fs::read_symlink("/proc/self/exe").string(), "--one",
                                                            std::to_string(index), compiler, cache.string()},
                                              .folder = {}});
  if (outcome.exit_code != 0) throw unisono::UserError(outcome.output);
  return json::parse(outcome.output);
}

json measure_case(std::size_t index, const std::string& compiler, int runs, const fs::path& work) {
  std::vector<double> cold, cpu, warm, hit;
  json last;
  for (int i = 0; i < runs; ++i) {
    const fs::path cache = work / fmt::format("{}-{}", index, i);
    last = in_new_process(index, compiler, cache);
    if (last["cached"]) throw unisono::UserError("the cold run found a binary");
    cold.push_back(last["first_ms"]);
    cpu.push_back(last["cpu_ms"]);
    const json second = in_new_process(index, compiler, cache);
    if (!second["cached"]) throw unisono::UserError("the warm run found no binary");
    warm.push_back(second["first_ms"]);
    hit.push_back(second["again_ms"]);
  }
  const auto [low, high] = std::minmax_element(cold.begin(), cold.end());
  return {{"name", cases[index].name()},
          {"dtype", "bf16"},
          {"kernel", last["kernel"]},
          {"cold_ms", rounded(median(cold))},
          {"cold_cpu_ms", rounded(median(cpu))},
          {"warm_ms", rounded(median(warm))},
          {"hit_ms", rounded(median(hit))},
          {"spread", rounded((*high - *low) / median(cold))},
          {"registers", last["registers"]},
          {"spill_bytes", last["spill_bytes"]},
          {"cubin_bytes", last["cubin_bytes"]}};
}

/// All kernels by one call, with as many compilations at once.
json measure_batch(const std::string& compiler, int jobs, const fs::path& cache) {
  std::vector<unisono::jit::Request> requests;
  for (const Case& c : cases) requests.push_back(make_request(c));
  unisono::jit::Settings settings = settings_of(compiler, cache);
  settings.jobs = jobs;
  const auto start = Clock::now();
  const auto binaries = unisono::jit::Jit(settings).compile(requests);
  return {{"kernels", binaries.size()}, {"jobs", jobs}, {"ms", rounded(milliseconds(start))}};
}

std::string first_line(const std::vector<std::string>& command) {
  const auto outcome = unisono::support::run({.arguments = command, .folder = {}});
  return outcome.exit_code == 0 ? outcome.output.substr(0, outcome.output.find('\n')) : "unknown";
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

json measure_all(const std::string& compiler, int runs) {
  std::string name = (fs::temp_directory_path() / "unisono_bench_jit_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw unisono::UserError("cannot make " + name);
  const fs::path work = name;
  json result{{"suite", "jit"},
              {"compiler", unisono::jit::description_of(settings_of(compiler, work))},
              {"cpu", cpu_name()},
              {"cores", std::thread::hardware_concurrency()},
              {"commit", first_line({"/usr/bin/env", "git", "rev-parse", "HEAD"})},
              {"date", first_line({"/usr/bin/env", "date", "+%F"})},
              {"runs", runs},
              {"cases", json::array()},
              {"batch", json::array()}};
  std::vector<double> cold, cpu, warm, hit;
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    result["cases"].push_back(measure_case(i, compiler, runs, work));
    const json& c = result["cases"].back();
    cpu.push_back(c["cold_cpu_ms"]);
    cold.push_back(c["cold_ms"]), warm.push_back(c["warm_ms"]), hit.push_back(c["hit_ms"]);
    fmt::print(
        stderr,
        "{:24} cold {:7.0f} ms (CPU {:.0f} ms), warm {:6.2f} ms, hit {:6.3f} ms, {} registers, spilled {} bytes\n",
        c["name"].get<std::string>(), cold.back(), cpu.back(), warm.back(), hit.back(), c["registers"].get<int>(),
        c["spill_bytes"].get<int>());
  }
  for (const int jobs : {1, static_cast<int>(std::thread::hardware_concurrency())}) {
    result["batch"].push_back(measure_batch(compiler, jobs, work / fmt::format("batch-{}", jobs)));
  }
  result["cold_cpu_ms"] = median(cpu);
  result["cold_ms"] = median(cold), result["warm_ms"] = median(warm), result["hit_ms"] = median(hit);
  fs::remove_all(work);
  return result;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 5 && std::string(argv[1]) == "--one") {
    return measure_one(static_cast<std::size_t>(std::stoi(argv[2])), argv[3], argv[4]);
  }
  std::string compiler = "nvrtc", out;
  int runs = 5;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc)
      throw unisono::UserError("'" + option + "': expected [--runs N] [--compiler nvrtc|nvcc] [--out FILE]");
    if (option == "--runs") {
      runs = std::stoi(argv[i + 1]);
    } else if (option == "--compiler") {
      compiler = argv[i + 1];
    } else if (option == "--out") {
      out = argv[i + 1];
    } else {
      throw unisono::UserError("unknown option " + option);
    }
  }
  const std::string text = measure_all(compiler, runs).dump(1) + "\n";
  if (out.empty()) {
    std::cout << text;
  } else {
    unisono::support::replace_file(out, text);
  }
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "unisono_bench_jit: {}\n", e.what());
  return 1;
}
