// Times one contender on one ONNX model on the CPU; one JSON line on standard output. bench/run.py calls it.
//
// usage: unisono_bench_cpu unisono|onednn_sequence MODEL.onnx --input X.npy --output Y.npy --threads T --seconds S
//
// The input and the output are dense f32 NCHW in memory, as for ONNX Runtime, so that every contender pays for the
// layout it prefers inside. Both begin on a cache line, as the memory does that the peers allocate themselves.

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "media/npy.hpp"
#include "peers/sequence_of_network.hpp"
#include "unisono/error.hpp"
#include "unisono/onnx.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string who, model, input, output;
  int threads = 1;
  double seconds = 2;
};

Options parse(int argc, char** argv) {
  if (argc < 3)
    throw unisono::UserError(
        "usage: unisono_bench_cpu unisono|onednn_sequence MODEL --input X.npy --output Y.npy --threads T --seconds S");
  Options o;
  o.who = argv[1];
  o.model = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--input")
      o.input = value;
    else if (key == "--output")
      o.output = value;
    else if (key == "--threads")
      o.threads = std::stoi(value);
    else if (key == "--seconds")
      o.seconds = std::stod(value);
    else
      throw unisono::UserError("unknown option " + key);
  }
  return o;
}

// Microseconds of each run after three to warm up
std::vector<double> time_runs(const std::function<void()>& run, double seconds) {
  for (int i = 0; i < 3; ++i) run();
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end || times.size() < 10) {
    const auto start = Clock::now();
    run();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return times;
}

void write_output(const std::string& path, const std::vector<float>& values, const std::vector<std::int64_t>& shape) {
  unisono::media::write_npy(path, unisono::media::to_array({values.data(), unisono::DType::f32, shape, {}}));
}

using Floats = std::unique_ptr<float, decltype(&std::free)>;
Floats aligned_floats(std::size_t count) {
  constexpr std::size_t line = 64;
  const std::size_t bytes = (count * sizeof(float) + line - 1) / line * line;
  Floats p(static_cast<float*>(std::aligned_alloc(line, bytes)), &std::free);
  if (!p) throw std::bad_alloc();
  std::fill_n(p.get(), bytes / sizeof(float), 0.0f);
  return p;
}

nlohmann::json bench_unisono(const Options& o, const unisono::media::Array& x) {
  const auto run = unisono::compile(unisono::load_onnx(o.model), {.threads = o.threads});
  const unisono::Network& network = run.network();
  const std::string in = network[network.inputs.at(0)].name, out = network[network.outputs.at(0)].name;
  const auto shape = run.output_shapes({{in, x.shape}}).at(out);
  const auto count = static_cast<std::size_t>(unisono::element_count(shape));
  const Floats image = aligned_floats(x.bytes.size() / sizeof(float)), y = aligned_floats(count);
  std::copy(x.bytes.begin(), x.bytes.end(), reinterpret_cast<std::uint8_t*>(image.get()));
  const auto once = [&] {
    run.run({{in, {image.get(), unisono::DType::f32, x.shape, {}}}},
            {{out, {y.get(), unisono::DType::f32, shape, {}}}});
  };
  nlohmann::json result{{"times_us", time_runs(once, o.seconds)}};
  const auto memory = run.memory({{in, x.shape}});
  result["arena_bytes"] = memory.arena;
  result["kernels"] = run.report().kernels;
  result["operators"] = run.report().operators;
  write_output(o.output, {y.get(), y.get() + count}, shape);
  return result;
}

nlohmann::json bench_sequence(const Options& o, const unisono::media::Array& x) {
  omp_set_num_threads(o.threads);
  const unisono::Network network = unisono::load_onnx(o.model);
  unisono::bench::OnednnSequence sequence;
  unisono::bench::append_network(sequence, network, x.shape.at(0));
  const std::span<const float> values{reinterpret_cast<const float*>(x.bytes.data()), x.bytes.size() / sizeof(float)};
  sequence.write_input(values);
  nlohmann::json result{{"times_us", time_runs([&] { sequence.run(); }, o.seconds)},
                        {"primitives", sequence.describe()}};
  const auto y = sequence.read_output();
  write_output(o.output, y, {static_cast<std::int64_t>(y.size())});
  return result;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options o = parse(argc, argv);
  const unisono::media::Array x = unisono::media::read_npy(o.input);
  if (x.type != unisono::DType::f32) throw unisono::UserError(o.input + ": expected float32");
  nlohmann::json line = o.who == "unisono"           ? bench_unisono(o, x)
                        : o.who == "onednn_sequence" ? bench_sequence(o, x)
                                                     : throw unisono::UserError("unknown contender " + o.who);
  line["who"] = o.who;
  std::puts(line.dump().c_str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "unisono_bench_cpu: %s\n", e.what());
  return 1;
}
