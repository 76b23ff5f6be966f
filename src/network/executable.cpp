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

std::shared_ptr<NetworkLaunchImpl> NetworkImpl::bind(const std::map<std::string, ConstTensorView>&,
                                                     const std::map<std::string, TensorView>&, const WorkspaceMemory&) {
  throw UserError(
      "NetworkExecutable::bind makes launches for a GPU, and this network was compiled for the CPU; call run(), or "
      "compile it with NetworkOptions::device = Device::cuda");
}

void NetworkImpl::write_in_place(std::set<std::string>) {}

std::optional<DirectOrder> NetworkImpl::direct_order(const std::string&, const std::vector<std::int64_t>&) {
  return std::nullopt;
}

std::size_t NetworkImpl::workspace_bytes(const NamedSizes&) {
  throw UserError(
      "NetworkExecutable::workspace_bytes is for runs on a GPU, and this network was compiled for the CPU, which "
      "allocates its own; memory() says how much");
}

std::vector<std::string> NetworkImpl::host_steps(const NamedSizes&) { return {}; }

void NetworkExecutable::run(const std::map<std::string, ConstTensorView>& inputs,
                            const std::map<std::string, TensorView>& outputs, std::vector<StepTime>* profile) const {
  impl_->run(inputs, outputs, profile);
}

void NetworkExecutable::enqueue(const std::map<std::string, ConstTensorView>& inputs,
                                const std::map<std::string, TensorView>& outputs, Stream stream) const {
  impl_->enqueue(inputs, outputs, stream);
}

NetworkLaunch NetworkExecutable::bind(const std::map<std::string, ConstTensorView>& inputs,
                                      const std::map<std::string, TensorView>& outputs,
                                      const WorkspaceMemory& workspace) const {
  return NetworkLaunch(impl_->bind(inputs, outputs, workspace));
}

std::size_t NetworkExecutable::workspace_bytes(const std::map<std::string, std::vector<std::int64_t>>& inputs) const {
  return impl_->workspace_bytes(inputs);
}

std::size_t NetworkLaunch::slot(std::string_view name) const { return impl_->slot(name); }
void NetworkLaunch::rebind(std::size_t slot, const void* data) { impl_->rebind(slot, data); }
std::size_t NetworkLaunch::workspace_bytes() const { return impl_->workspace_bytes(); }
void NetworkLaunch::enqueue(Stream stream) const { impl_->enqueue(stream); }

std::map<std::string, std::vector<std::int64_t>> NetworkExecutable::output_shapes(
    const std::map<std::string, std::vector<std::int64_t>>& inputs) const {
  return impl_->output_shapes(inputs);
}
MemoryReport NetworkExecutable::memory(const std::map<std::string, std::vector<std::int64_t>>& inputs) const {
  return impl_->memory(inputs);
}
std::vector<std::string> NetworkExecutable::host_steps(
    const std::map<std::string, std::vector<std::int64_t>>& inputs) const {
  return impl_->host_steps(inputs);
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
