/// Networks ready to run: the front of either backend.

#include <fmt/format.h>

#include "network/executable_impl.hpp"
#include "runtime/cpu/worker_pool.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono {

void NetworkImpl::enqueue(const std::map<std::string, ConstTensorView>&, const std::map<std::string, TensorView>&,
                          Stream) {
  throw UserError(
      "NetworkExecutable::enqueue needs a stream of a GPU, and this network was compiled for the CPU; call run(), or "
      "compile it with NetworkOptions::device = Device::cuda");
}

void NetworkExecutable::run(const std::map<std::string, ConstTensorView>& inputs,
                            const std::map<std::string, TensorView>& outputs, std::vector<StepTime>* profile) const {
  impl_->run(inputs, outputs, profile);
}

void NetworkExecutable::enqueue(const std::map<std::string, ConstTensorView>& inputs,
                                const std::map<std::string, TensorView>& outputs, Stream stream) const {
  impl_->enqueue(inputs, outputs, stream);
}

std::map<std::string, std::vector<std::int64_t>> NetworkExecutable::output_shapes(
    const std::map<std::string, std::vector<std::int64_t>>& inputs) const {
  return impl_->output_shapes(inputs);
}
MemoryReport NetworkExecutable::memory(const std::map<std::string, std::vector<std::int64_t>>& inputs) const {
  return impl_->memory(inputs);
}
const Network& NetworkExecutable::network() const { return impl_->given(); }
const FusionReport& NetworkExecutable::report() const { return impl_->report(); }

NetworkExecutable compile(Network network, const NetworkOptions& options) {
  verify(network);
  if (options.cached_plans < 1) throw UserError("cached_plans is 0; expected at least 1");
  if (options.threads < 0 || options.threads > cpu::WorkerPool::most_threads)
    throw UserError(
        fmt::format("threads is {}; expected 0 (one a core) to {}", options.threads, cpu::WorkerPool::most_threads));
  switch (options.device) {
    case Device::cpu: return NetworkExecutable(network::build_cpu(std::move(network), options));
    case Device::cuda: return NetworkExecutable(network::build_cuda(std::move(network), options));
  }
  throw UserError(fmt::format("device {} is unknown; expected cpu or cuda", static_cast<int>(options.device)));
}

}  // namespace unisono
