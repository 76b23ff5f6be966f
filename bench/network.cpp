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
#include "networks.hpp"
#include "support/float_convert.hpp"
#include "support/replace_file.hpp"
#include "tuner/tuner.hpp"
#include "unisono/error.hpp"
#include "unisono/tuning.hpp"

namespace {

using namespace unisono;
using cuda::check;
using cuda::driver;
using nlohmann::json;
using Clock = std::chrono::steady_clock;
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

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

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

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

// As NetworkOptions::layout wants shapes
Shapes channels_last(Shapes shapes) {
  for (auto& [name, s] : shapes)
    if (s.size() == 4) s = {s[0], s[2], s[3], s[1]};
  return shapes;
}

// Tensors of 16 bits in the GPU's memory, channels last, as a training framework hands them over
struct Tensors {
  std::vector<std::unique_ptr<gpu::Buffer>> memory;
  std::map<std::string, ConstTensorView> inputs;
  std::map<std::string, TensorView> outputs;

  void* add(std::size_t elements) {
    memory.push_back(std::make_unique<gpu::Buffer>(2 * elements));
    return memory.back()->data();
  }
  Tensors(const NetworkExecutable& network, const Shapes& shapes, DType type) {
    std::uint64_t state = 1;
    for (const auto& [name, shape] : shapes) {
      std::vector<std::uint16_t> x(static_cast<std::size_t>(element_count(shape)));
      for (auto& v : x) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float value = static_cast<float>(state >> 40) * 0x1p-23f - 1;
        v = type == DType::bf16 ? support::float_to_bf16(value) : support::float_to_f16(value);
      }
      inputs[name] = {add(x.size()), type, shape, {}};
      memory.back()->upload(x.data());
    }
    for (const auto& [name, shape] : network.output_shapes(shapes))
      outputs[name] = {add(static_cast<std::size_t>(element_count(shape))), type, shape, {}};
  }
  std::vector<std::vector<std::byte>> results() const {
    std::vector<std::vector<std::byte>> all;
    for (std::size_t i = inputs.size(); i < memory.size(); ++i) all.push_back(memory[i]->contents());
    return all;
  }
};

// Microseconds of one replay: the median over rounds, each of so many replays that they last some milliseconds
struct Times {
  double us = 0, spread = 0;
  double host_us = 0;              // of putting one replay on an idle stream, by a thread that polled for its end
  double host_after_sleep_us = 0;  // the same, by a thread that slept while it waited
  double launch_host_us = 0;       // of a bound launch, whose first input is bound anew before each
  int inner = 1;
};

Times time_replays(const NetworkExecutable& network, const Tensors& t, int rounds) {
  const gpu::TestStream stream;
  const auto enqueue = [&] { network.enqueue(t.inputs, t.outputs, stream); };
  CUevent first{}, last{};
  check(driver().cuEventCreate(&first, CU_EVENT_DEFAULT), "making an event");
  check(driver().cuEventCreate(&last, CU_EVENT_DEFAULT), "making an event");
  const auto round = [&](int inner) {
    check(driver().cuEventRecord(first, stream.get()), "recording an event");
    for (int i = 0; i < inner; ++i) enqueue();
    check(driver().cuEventRecord(last, stream.get()), "recording an event");
    gpu::wait(stream.get(), "replays of a network", 300);
    float ms = 0;
    check(driver().cuEventElapsedTime(&ms, first, last), "reading an event");
    return 1000.0 * static_cast<double>(ms) / inner;
  };
  for (int i = 0; i < 3; ++i) enqueue();
  Times times;
  times.inner = static_cast<int>(std::clamp(5000 / std::max(round(3), 1.0), 1.0, 200.0));
  std::vector<double> us;
  for (int r = 0; r < rounds; ++r) us.push_back(round(times.inner));
  const auto host = [&](bool awake, const auto& put) {  // one at a time: the stream never holds the host up
    std::vector<double> each;
    for (int r = 0; r < 3 * rounds; ++r) {
      const auto start = Clock::now();
      put();
      each.push_back(1e6 * seconds_since(start));
      gpu::wait(stream.get(), "a replay of a network", 300, awake);
    }
    return median(each);
  };
  times.host_us = host(true, enqueue), times.host_after_sleep_us = host(false, enqueue);
  NetworkLaunch launch = network.bind(t.inputs, t.outputs);
  const auto& [name, view] = *t.inputs.begin();
  const std::size_t input = launch.slot("input " + name);
  times.launch_host_us = host(true, [&, data = view.data] {
    launch.rebind(input, data);
    launch.enqueue(stream);
  });
  driver().cuEventDestroy(first);
  driver().cuEventDestroy(last);
  times.us = median(us);
  times.spread = (*std::max_element(us.begin(), us.end()) - *std::min_element(us.begin(), us.end())) / times.us;
  return times;
}

// Each kernel by itself between events: the median of so many runs
std::vector<StepTime> time_kernels(const NetworkExecutable& network, const Tensors& t, int runs) {
  std::vector<StepTime> steps;
  std::vector<std::vector<double>> all;
  for (int r = 0; r < runs; ++r) {
    network.run(t.inputs, t.outputs, &steps);
    all.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) all[i].push_back(steps[i].milliseconds);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].milliseconds = median(all[i]);
  return steps;
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

json kernels_json(const std::vector<StepTime>& steps, const DeviceReport& report) {
  json list = json::array();
  for (std::size_t i = 0; i < steps.size(); ++i)
    list.push_back({{"us", std::round(steps[i].milliseconds * 1e6) / 1000},
                    {"name", steps[i].name},
                    {"what", steps[i].what},
                    {"how", report.launches.at(i).how}});
  return list;
}

void print_kernels(const std::vector<StepTime>& steps, const DeviceReport& report) {
  double sum = 0;
  for (const StepTime& s : steps) sum += s.milliseconds;
  for (std::size_t i = 0; i < steps.size(); ++i)
    fmt::print("  {:8.2f} us  {:4.1f} %  {}\n                       {}\n", 1000 * steps[i].milliseconds,
               100 * steps[i].milliseconds / sum, steps[i].what, report.launches.at(i).how);
  fmt::print("  {:8.2f} us  one by one\n", 1000 * sum);
}

// What the check of outputs against float64 found
json agreement_json(const std::vector<command::NetworkAgreement>& agreements) {
  json list = json::array();
  for (const auto& a : agreements) {
    fmt::print(
        "  '{}' against float64: largest error {:.2e}, tolerance {:.2e}, largest value {:.2e}, {} of {} outside\n",
        a.output, a.largest_error, a.tolerance, a.largest_value, a.outside, a.elements);
    list.push_back({{"output", a.output},
                    {"elements", a.elements},
                    {"outside", a.outside},
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
  const Shapes shapes = channels_last(c.shapes());
  const double flop = flop_of(network, c.shapes());
  const DeviceReport report = explain_device(network, options, shapes);
  const auto start = Clock::now();
  const NetworkExecutable executable = compile(network, options);
  const MemoryReport memory = executable.memory(shapes);
  const double compile_s = seconds_since(start);
  const Tensors tensors(executable, shapes, options.precision);
  const Times times = time_replays(executable, tensors, o.rounds);
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
         {"coda_us", times.us},
         {"spread", times.spread},
         {"replays", times.inner},
         {"host_us", times.host_us},
         {"host_after_sleep_us", times.host_after_sleep_us},
         {"launch_host_us", times.launch_host_us},
         {"launches", report.launches.size()},
         {"flop", flop},
         {"floor_us", flop / 790e6},
         {"arena_bytes", memory.arena},
         {"constant_bytes", memory.constants},
         {"compile_s", compile_s},
         {"repeats", repeats}};
  if (o.kernels) {
    const auto steps = time_kernels(executable, tensors, 11);
    print_kernels(steps, report);
    j["kernels"] = kernels_json(steps, report);
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
    for (auto& p : network::gpu::tuning_problems(c.make(), network_options(o), channels_last(c.shapes()),
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
    const Shapes shapes = channels_last(c.shapes());
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
  fmt::print("kernels of {} launches in {:.1f} s\n", requests.size(), seconds_since(start));
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
