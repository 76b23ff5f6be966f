#include "random_networks/gpu_kernels.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <map>

#include "jit/jit.hpp"
#include "network/cuda/run/plan.hpp"
#include "random_networks/judge.hpp"
#include "runtime/cuda/backend.hpp"
#include "support/hash.hpp"
#include "unisono/error.hpp"
#include "unisono/onnx.hpp"

namespace unisono::test {
namespace {

// The GPU of this machine, or an H200 where there is none
const plan::Device& planned_for(const NetworkOptions& options) {
  static const plan::Device device = [&] {
    try {
      return cuda::open_device(options.device_index);
    } catch (const DeviceError&) {
      return plan::Device();
    } catch (const Unsupported&) {
      return plan::Device();
    }
  }();
  return device;
}

std::vector<jit::Request> requests_of(const ModelWithData& model, const NetworkOptions& options) {
  const Network network = parse_onnx(std::as_bytes(std::span(model.model)), "model");
  return network::gpu::requests(network, options, shapes_of(model), planned_for(options));
}

std::string hash_of(const jit::Request& r) {
  std::string all = r.source;
  for (const std::string& o : r.options) all += "\n" + o;
  return support::hash(all);
}

}  // namespace

std::set<std::string> kernels_of(const ModelWithData& model, const NetworkOptions& options) {
  std::set<std::string> hashes;
  for (const jit::Request& r : requests_of(model, options)) hashes.insert(hash_of(r));
  return hashes;
}

std::size_t compile_kernels(const std::vector<std::string>& paths, const NetworkOptions& options) {
  std::map<std::string, jit::Request> distinct;
  for (const std::string& path : paths) {
    try {
      for (jit::Request& r : requests_of(read_model_with_data(path), options))
        distinct.emplace(hash_of(r), std::move(r));
    } catch (const UserError&) {
    } catch (const Unsupported&) {
    }
  }
  std::vector<jit::Request> requests;
  for (auto& [hash, r] : distinct) requests.push_back(std::move(r));
  jit::Settings settings;
  settings.jobs = options.threads;
  jit::Jit(settings).compile(requests, [](std::size_t done, std::size_t total, const std::string&) {
    if (done % 100 == 0 || done == total) std::fprintf(stderr, "%zu of %zu kernels\n", done, total);
  });
  return requests.size();
}

}  // namespace unisono::test
