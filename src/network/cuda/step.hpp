#pragma once
/// One kernel launch of a network on a GPU, on its way from a plan to something that runs.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/graph_kernels.hpp"
#include "jit/jit.hpp"
#include "lower/lower.hpp"
#include "network/cuda/dependencies.hpp"
#include "network/cuda/host_step.hpp"
#include "network/cuda/memory.hpp"
#include "network/cuda/uses.hpp"
#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/plain.hpp"
#include "unisono/executable.hpp"
#include "unisono/network.hpp"

namespace unisono::network::gpu {

class Step : public StepText {
 public:
  Step() = default;
  virtual ~Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  Uses uses;  ///< what it asks of memory and of the GPU
  std::vector<std::shared_ptr<Constant>> constants;

  /// None of a kernel that another library has.
  virtual std::optional<jit::Request> request() const = 0;
  /// `binary`: what the request became.
  virtual void load(int device_index, jit::Binary binary) = 0;
  virtual Launch bind(const Bases& bases) const = 0;
  /// In which the blocks of one launch meet; zero before the first.
  virtual std::size_t workspace_bytes() const { return 0; }
  /// What could be tuned of it.
  virtual std::optional<lower::Problem> problem() const { return std::nullopt; }
};

/// The one parameter of a plain kernel, and the tensor maps in it that are encoded when it is bound.
struct PlainParameter {
  std::vector<std::byte> bytes;
  std::vector<families::Parameter::Map> maps;

  // NOLINTNEXTLINE(google-explicit-constructor): nearly all parameters are bytes alone
  PlainParameter(std::vector<std::byte> all, std::vector<families::Parameter::Map> to_encode = {})
      : bytes(std::move(all)), maps(std::move(to_encode)) {}
};

/// A kernel with one plain parameter.
class PlainStep final : public Step {
 public:
  using Parameters = std::function<PlainParameter(const Bases&)>;

  /// `arch`: the device's.
  PlainStep(std::string source, std::string entry, std::string arch, cuda::PlainGrid grid, std::size_t parameter_bytes,
            Parameters parameters)
      : source_(std::move(source)),
        entry_(std::move(entry)),
        arch_(std::move(arch)),
        grid_(grid),
        parameter_bytes_(parameter_bytes),
        parameters_(std::move(parameters)) {}

  std::optional<jit::Request> request() const override;
  void load(int device_index, jit::Binary binary) override;
  Launch bind(const Bases& bases) const override;
  const cuda::PlainGrid& grid() const { return grid_; }

 private:
  std::string source_, entry_, arch_;
  cuda::PlainGrid grid_;
  std::size_t parameter_bytes_;
  Parameters parameters_;
  std::shared_ptr<const cuda::PlainKernel> kernel_;
};

/// All launches of a network, for one set of input shapes, and what the host computes between them.
struct LaunchSequence {
  std::vector<std::unique_ptr<Step>> steps;  ///< in order
  std::vector<std::size_t> region;           ///< by step: index of its region, or the number of regions at the border
  Order after;                               ///< by step: those of its segment that it waits for
  std::vector<HostStep> host;                ///< each stands between two segments
  std::vector<std::size_t> cuts;             ///< by host step: the first launch of the segment behind it
  /// Where the kernels of a run record the first index outside its axis, or integer divided by 0; if any do.
  std::optional<Location> status;
  std::map<std::uint32_t, std::string> may_fail;  ///< by the number under which a launch does: its operator, for errors
  std::size_t scratch_bytes = 0;                  ///< Location::Space::scratch
  std::size_t kept_bytes = 0;                     ///< Location::Space::kept
  std::size_t staging_bytes = 0;                  ///< Staged
  std::size_t host_bytes = 0;                     ///< memory of the host: all tensors of host steps

  /// Launches and host steps in the order in which they run.
  std::vector<const StepText*> in_order() const;
  /// HostStep::unserved of all host steps.
  std::vector<std::string> unserved() const;
};

}  // namespace unisono::network::gpu
