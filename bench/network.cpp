// unisono_bench_network: whole networks on a GPU, as replays of one CUDA graph each. Prints a table a case and writes
// JSON.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "gpu/device.hpp"
#include "gpu/kernels.hpp"
#include "network/contraction.hpp"
#include "network/cuda/run/plan.hpp"
#include "network_check.hpp"
#include "network_times.hpp"
#include "networks.hpp"
#include "support/float_convert.hpp"
#include "support/replace_file.hpp"
#include "tuner/tuner.hpp"
#include "unisono/error.hpp"
#include "unisono/tuning.hpp"

namespace {

using namespace unisono;
using bench::Clock;
using bench::Shapes;
using cuda::check;
using cuda::driver;
using nlohmann::json;

struct Options {
  std::vector<std::filesystem::path> cases;
  std::filesystem::path json;
  std::string only, commit, precision = "bf16";
  int device = 0, rounds = 31;
  bool precompile = false, explain = false, kernels = true, tune = false, again = false;
  std::vector<std::string> verified;
  double seconds = 0;
  int candidates = 10;
};

std::vector<bench::NetworkCase> read_cases(const Options& o) {
  std::vector<bench::NetworkCase> all;
  for (const auto& path : o.cases) {
    std::ifstream file(path);
    if (!file) throw UserError(fmt::format("'{}' cannot be read", path.string()));
    std::stringstream text;
    text << file.rdbuf();
    for (bench::NetworkCase& c : bench::parse_network_cases(text.str(), path.string()))
      if (c.name.find(o.only) != std::string::npos) all.push_back(std::move(c));
  }
  if (all.empty()) throw UserError("no case is left to run");
  return all;
}

NetworkOptions network_options(const Options& o) {
  NetworkOptions n;
  n.device = Device::cuda;
  n.device_index = o.device;
  n.precision = o.precision == "f16" ? DType::f16 : DType::bf16;
  n.layout = Layout::nhwc;
  n.strict = true;  // what the host computes is no time of a GPU
  return n;
}

double flop_of(const Network& network, const Shapes& shapes) {
  std::vector<network::Sizes> sizes;
  for (const TensorId id : network.inputs) sizes.push_back(shapes.at(network[id].name));
  const auto all = network::concrete_shapes(network, sizes);
  double sum = 0;
  for (const Operator& op : network.operators)
    if (network::is_contraction(op.kind)) sum += flop(network::contraction_of(op, all));
  return sum;
}

// What the check of outputs against float64 found
json agreement_json(const std::vector<float64::NetworkAgreement>& agreements) {
  json list = json::array();
  for (const auto& a : agreements) {
    fmt::print(
        "  '{}' against float64: largest error {:.2e}, tolerance {:.2e}, largest value {:.2e}, {} of {} outside\n",
        a.output, a.largest_error, a.tolerance, a.largest_value, a.outside, a.elements);
    list.push_back({{"output", a.output},
                    {"elements", a.elements},
                    {"outside", a.compared() ? a.outside : a.elements},
                    {"largest_error", a.largest_error},
                    {"tolerance", a.tolerance},
                    {"largest_value", a.largest_value}});
  }
  return list;
}

bool is_right(const json& result) {
  bool right = result["repeats"].get<bool>();
  for (const json& a : result.value("agreement", json::array())) right = right && a["outside"] == 0;
  return right;
}

json run_case(const bench::NetworkCase& c, const Options& o) {
  const NetworkOptions options = network_options(o);
  const Network network = c.make();
  const Shapes shapes = bench::channels_last(c.shapes());
  const double flop = flop_of(network, c.shapes());
  const DeviceReport report = explain_device(network, options, shapes);
  const auto start = Clock::now();
  const NetworkExecutable executable = compile(network, options);
  const MemoryReport memory = executable.memory(shapes);
  const double compile_s = bench::seconds_since(start);
  const bench::NetworkTensors tensors(executable, shapes, options.precision);
  const bench::ReplayTimes times = bench::time_replays(executable, tensors, o.rounds);
  const auto first = tensors.results();
  const gpu::TestStream stream;
  executable.enqueue(tensors.inputs, tensors.outputs, stream);
  gpu::wait(stream.get(), "a replay", 300);
  const bool repeats = tensors.results() == first;
  fmt::print(
      "{}: {:.1f} us a replay (spread {:.1f} %), {:.1f} us of the host ({:.1f} after sleep, {:.1f} bound), {} "
      "launches, {:.0f} TFLOP/s, arena {:.1f} MB{}\n",
      c.name, times.us, 100 * times.spread, times.host_us, times.host_after_sleep_us, times.launch_host_us,
      report.launches.size(), flop / times.us / 1e6, static_cast<double>(memory.arena) / 1e6,
      repeats ? "" : ", AND NOT THE SAME BITS AGAIN");
  json j{{"name", c.name},
         {"network", c.network},
         {"batch", c.values.at("batch")},
         {"size", c.values.at("size")},
         {"dtype", o.precision},
         {"unisono_us", times.us},
         {"spread", times.spread},
         {"replays", times.inner},
         {"host_us", times.host_us},
         {"host_after_sleep_us", times.host_after_sleep_us},
         {"launch_host_us", times.launch_host_us},
         {"launches", report.launches.size()},
         {"flop", flop},
         {"floor_us", flop / 790e6},
         {"arena_bytes", memory.arena},
         {"workspace_bytes", executable.workspace_bytes(shapes)},  // with the arena and the kernels' own
         {"constant_bytes", memory.constants},
         {"input_bytes", tensors.input_bytes()},
         {"output_bytes", tensors.output_bytes()},
         {"compile_s", compile_s},
         {"repeats", repeats}};
  if (o.kernels) {
    const auto steps = bench::time_kernels(executable, tensors, 11);
    bench::print_kernels(steps, report);
    j["kernels"] = bench::kernels_json(steps, report);
  }
  const auto is_meant = [&](const std::string& text) { return c.name.find(text) != std::string::npos; };
  if (std::any_of(o.verified.begin(), o.verified.end(), is_meant))
    j["agreement"] = agreement_json(bench::verify(executable, options, tensors.inputs, tensors.outputs));
  std::fflush(stdout);
  return j;
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&time));
  return text;
}

int run_all(const Options& o) {
  gpu::choose_device(o.device);
  int version = 0, failed = 0;
  check(driver().cuDriverGetVersion(&version), "asking for the driver's version");
  json all{{"suite", o.cases[0].stem().string()},
           {"gpu", gpu::device().device.name},
           {"driver", fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10)},
           {"commit", o.commit},
           {"date", now()},
           {"cases", json::array()}};
  for (const bench::NetworkCase& c : read_cases(o)) {
    try {
      all["cases"].push_back(run_case(c, o));
      failed += is_right(all["cases"].back()) ? 0 : 1;
    } catch (const std::exception& error) {
      fmt::print("{}: {}\n", c.name, error.what());
      all["cases"].push_back({{"name", c.name}, {"error", error.what()}});
      ++failed;
    }
    if (!o.json.empty()) support::replace_file(o.json, all.dump(1) + "\n");
  }
  return failed == 0 ? 0 : 1;
}

// All cases' problems together, each once
int tune(const Options& o) {
  std::vector<lower::Problem> problems;
  for (const bench::NetworkCase& c : read_cases(o))
    for (auto& p : network::gpu::tuning_problems(c.make(), network_options(o), bench::channels_last(c.shapes()),
                                                 cuda::open_device(o.device)))
      problems.push_back(std::move(p));
  TuningOptions options;
  options.device_index = o.device;
  options.candidates = static_cast<std::size_t>(o.candidates);
  options.seconds = o.seconds;
  options.again = o.again;
  auto next = Clock::now();
  options.progress = [&](const TuningProgress& p) {
    if (Clock::now() < next) return;
    next = Clock::now() + std::chrono::seconds(2);
    fmt::print(stderr, "{:.0f} s: {} of {} plans timed, {} of {} problems done, about {:.0f} s left\n", p.seconds,
               p.timed, p.kernels, p.finished, p.problems, p.seconds_left);
  };
  const TuningReport report = tuner::tune(problems, options);
  int failed = 0;
  for (const TunedProblem& p : report.problems) {
    fmt::print("{:9.2f} us, before {:9.2f} us, {} times: {} [{}]\n              {}{}\n", p.us, p.before_us, p.uses,
               p.problem, p.epilogue, p.plan, p.known ? " (known)" : p.error);
    for (const std::string& r : p.rejected) fmt::print("              rejected: {}\n", r), ++failed;
  }
  fmt::print("{} problems in {:.1f} s, kept in {}\n", report.problems.size(), report.seconds, report.database.string());
  return failed == 0 ? 0 : 1;
}

// What needs no GPU
int prepare(const Options& o) {
  std::vector<jit::Request> requests;
  for (const bench::NetworkCase& c : read_cases(o)) {
    const Network network = c.make();
    const Shapes shapes = bench::channels_last(c.shapes());
    if (o.explain) fmt::print("{}\n{}\n", c.name, to_string(explain_device(network, network_options(o), shapes)));
    if (!o.precompile) continue;
    for (jit::Request& r : network::gpu::requests(network, network_options(o), shapes, {}))
      requests.push_back(std::move(r));
  }
  if (!o.precompile) return 0;
  const auto start = Clock::now();
  gpu::compiler().compile(requests, [](std::size_t done, std::size_t total, const std::string& title) {
    if (done % 10 == 0 || done == total) std::fprintf(stderr, "%zu of %zu: %s\n", done, total, title.c_str());
  });
  fmt::print("kernels of {} launches in {:.1f} s\n", requests.size(), bench::seconds_since(start));
  return 0;
}

int act(int argc, char** argv) {
  CLI::App app("Times whole networks on a GPU.", "unisono_bench_network");
  Options o;
  app.add_option("CASES", o.cases, "Case files, such as bench/cases/network.txt")->required();
  app.add_option("--json", o.json, "Write the results to this file");
  app.add_option("--only", o.only, "The cases whose name has this text");
  app.add_option("--commit", o.commit, "Recorded with the results");
  app.add_option("--precision", o.precision, "bf16 or f16")
      ->check(CLI::IsMember({"bf16", "f16"}))
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "Of the median")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--device", o.device, "Which GPU")->capture_default_str();
  app.add_flag("--precompile", o.precompile, "Compile all kernels into the cache and end; needs no GPU");
  app.add_flag("--explain", o.explain, "Print the launches of each case and end; needs no GPU");
  app.add_flag("!--no-kernels", o.kernels, "Do not time each kernel by itself");
  app.add_option("--verify", o.verified,
                 "Compare the outputs of cases whose name has one of these texts with float64 too, on the CPU: minutes "
                 "for large ones")
      ->delimiter(',');
  app.add_flag("--tune", o.tune, "Find the fastest plans of all cases, keep them (UNISONO_TUNING), and end");
  app.add_option("--candidates", o.candidates, "With --tune: plans of a problem that are tried")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "With --tune: compile nothing new after about so long; 0: no limit");
  app.add_flag("--again", o.again, "With --tune: also what was tuned before");
  CLI11_PARSE(app, argc, argv);
  if (o.tune) return tune(o);
  return o.precompile || o.explain ? prepare(o) : run_all(o);
}

}  // namespace

// Exit codes as those of unisono: docs/command.md
int main(int argc, char** argv) {
  try {
    return act(argc, argv);
  } catch (const UserError& error) {
    std::fprintf(stderr, "unisono_bench_network: %s\n", error.what());
    return 2;
  } catch (const Unsupported& error) {
    std::fprintf(stderr, "unisono_bench_network: not supported: %s\n", error.what());
    return 3;
  } catch (const CompileError& error) {
    std::fprintf(stderr, "unisono_bench_network: compiler: %s\n", error.what());
    return 4;
  } catch (const DeviceError& error) {
    std::fprintf(stderr, "unisono_bench_network: device: %s\n", error.what());
    return 5;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unisono_bench_network: internal error, please report it: %s\n", error.what());
    return 1;
  }
}
