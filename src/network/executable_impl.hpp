#pragma once
/// What stands behind a NetworkExecutable.

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/network.hpp"

namespace unisono {

class NetworkLaunchImpl {
 public:
  virtual ~NetworkLaunchImpl() = default;
  virtual std::size_t slot(std::string_view name) const = 0;
  virtual void rebind(std::size_t slot, const void* data) = 0;
  virtual std::size_t workspace_bytes() const = 0;
  /// For another launch of the same plan, which must not run at the same time.
  virtual WorkspaceMemory memory() const = 0;
  virtual void enqueue(Stream stream) = 0;
  /// Launches that run in their order behind all of the network's, in the same graph, from the next run on. Nothing is
  /// in flight.
  virtual void follow(std::vector<Launch> launches) = 0;
  /// How many launches a run has, without those that follow.
  virtual std::size_t launches() const = 0;
  /// In the GPU's memory: the TensorStatus in which kernels record a fault of the data; null: none do.
  virtual const void* status() const = 0;
  /// Waits for the stream. Throws UserError, in the name of the operator, for a fault that was recorded, and forgets
  /// it.
  virtual void check_faults(Stream stream) = 0;
};

/// How kernels read an input of NetworkOptions::weights in place.
struct DirectOrder {
  DType dtype = DType::f32;
  std::vector<std::int64_t> strides;
};

class NetworkImpl {
 public:
  using NamedSizes = std::map<std::string, std::vector<std::int64_t>>;

  virtual ~NetworkImpl() = default;
  virtual void run(const std::map<std::string, ConstTensorView>& inputs,
                   const std::map<std::string, TensorView>& outputs, std::vector<StepTime>* profile) = 0;
  /// Implemented by backends with streams; the others throw.
  virtual void enqueue(const std::map<std::string, ConstTensorView>& inputs,
                       const std::map<std::string, TensorView>& outputs, Stream stream);
  virtual std::shared_ptr<NetworkLaunchImpl> bind(const std::map<std::string, ConstTensorView>& inputs,
                                                  const std::map<std::string, TensorView>& outputs,
                                                  const WorkspaceMemory& workspace);
  /// Ahead of the first run: outputs that kernels write where the caller has them, in f32 that lies as they write it,
  /// without a copy. Backends without such kernels copy.
  virtual void write_in_place(std::set<std::string> outputs);
  /// None: kernels have a copy of it made, in whatever order it lies. `shape`: of the input.
  virtual std::optional<DirectOrder> direct_order(const std::string& input, const std::vector<std::int64_t>& shape);
  virtual std::size_t workspace_bytes(const NamedSizes& inputs);
  virtual NamedSizes output_shapes(const NamedSizes& inputs) const = 0;
  virtual MemoryReport memory(const NamedSizes& inputs) = 0;
  /// None, but for backends that have some.
  virtual std::vector<std::string> host_steps(const NamedSizes& inputs);
  virtual const Network& given() const = 0;
  virtual const FusionReport& report() const = 0;
};

namespace network {
/// The network is verified.
std::shared_ptr<NetworkImpl> build_cpu(Network network, const NetworkOptions& options);
std::shared_ptr<NetworkImpl> build_cuda(Network network, const NetworkOptions& options);
}  // namespace network

}  // namespace unisono
