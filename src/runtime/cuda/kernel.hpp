#pragma once
/// A loaded kernel.

#include <memory>
#include <span>
#include <string>

#include "families/interface/plan.hpp"
#include "jit/jit.hpp"
#include "runtime/cuda/gpu.hpp"
#include "runtime/cuda/graph.hpp"

namespace unisono::cuda {

/// A module with one kernel, in the GPU's primary context. Unloaded with the last reference, once its launches are
/// done.
class Module {
 public:
  Module(const Gpu& gpu, std::span<const std::byte> cubin, const std::string& entry);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  CUfunction function() const { return function_; }
  const Gpu& gpu() const { return gpu_; }

 private:
  const Gpu& gpu_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

/// Loads a binary, or shares it with the executables that have it loaded.
std::shared_ptr<const Module> load(const Gpu& gpu, const jit::Binary& binary, const std::string& entry);

/// Lets CTAs of a kernel have so many bytes of dynamic shared memory. Throws DeviceError.
void allow_shared(CUfunction function, std::size_t bytes);

/// How one plan launches a kernel, whose parameter has `parameter_bytes`. Throws DeviceError if its CTAs do not fit
/// on the GPU at once although the plan needs them to.
class Kernel {
 public:
  Kernel(std::shared_ptr<const Module> module, const families::Plan& plan, std::size_t parameter_bytes);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// One launch; `parameters` are copied before this returns.
  CUresult launch(CUstream stream, const void* parameters) const {
    CUlaunchConfig config = config_;
    config.hStream = stream;
    void* list[] = {const_cast<void*>(parameters)};
    return driver().cuLaunchKernelEx(&config, function_, list, nullptr);
  }
  const Gpu& gpu() const { return module_->gpu(); }
  /// The same as a node of a graph.
  NodeForm form(const void* parameters) const {
    return {function_,         config_.gridDimX,
            config_.blockDimX, config_.sharedMemBytes,
            parameters,        {config_.attrs, config_.attrs + config_.numAttrs}};
  }

 private:
  void check_residency(const families::Plan& plan) const;
  void check_parameters(std::size_t bytes) const;
  std::shared_ptr<const Module> module_;
  CUfunction function_ = nullptr;
  CUlaunchAttribute attributes_[3]{};
  CUlaunchConfig config_{};
};

}  // namespace unisono::cuda
