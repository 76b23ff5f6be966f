#pragma once
/// One kernel launch of a network on a GPU, on its way from a plan to something that runs.

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "codegen/graph_kernels.hpp"
#include "jit/jit.hpp"
#include "lower/lower.hpp"
#include "network/cuda/dependencies.hpp"
#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/plain.hpp"
#include "unisono/executable.hpp"
#include "unisono/network.hpp"

namespace unisono::network::gpu {

/// Elements in device memory that never change. Packed and copied when they are first needed, shared by all plans.
class Constant {
 public:
  explicit Constant(std::function<std::vector<std::byte>()> make) : make_(std::move(make)) {}
  void load(int device_index);
  void* data() const { return memory_->data(); }
  /// Bytes of device memory; 0 before load().
  std::size_t bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  std::function<std::vector<std::byte>()> make_;
  std::once_flag once_;
  std::unique_ptr<cuda::DeviceBuffer> memory_;
};

/// Where a kernel's argument lies, before there is memory.
struct Place {
  enum class Where : std::uint8_t { arena, scratch, kept, callers, constant } where{};
  std::size_t offset = 0;  ///< bytes
  std::shared_ptr<Constant> constant = {};
};

/// The memory of one execution.
struct Bases {
  std::byte *arena = nullptr, *scratch = nullptr, *kept = nullptr, *callers = nullptr;
};

void* address(const Place& place, const Bases& bases);

/// The bytes that a tensor of so many rows spans.
Interval interval(const Place& place, std::int64_t rows, std::int64_t width, std::int64_t pitch);
/// Moments of a tensor that its kernel stores beside it: plan::moments_shape.
struct GivenMoments {
  TensorId tensor{};
  Place place;
  std::int64_t slots = 0, unit = 0, bytes = 0;
  bool enlarged = false;  ///< the kernel stores the tensor enlarged as well
};

class Step {
 public:
  Step() = default;
  virtual ~Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  std::string name;            ///< of the tensor that its region makes, or "input …", "output …"
  std::string what;            ///< the contraction or operator, and which part of it
  std::string how;             ///< the kernel: a plan, or a plain kernel and why
  double flop = 0, bytes = 0;  ///< StepTime
  double predicted_us = 0;     ///< by the cost model; 0: it has no plan
  Uses uses;                   ///< what it asks of memory and of the GPU
  std::vector<std::shared_ptr<Constant>> constants;
  std::optional<GivenMoments> moments;

  virtual jit::Request request() const = 0;
  virtual void load(int device_index, jit::Binary binary) = 0;
  virtual Launch bind(const Bases& bases) const = 0;
  /// What could be tuned of it.
  virtual std::optional<lower::Problem> problem() const { return std::nullopt; }
};

/// A kernel with one plain parameter.
class PlainStep final : public Step {
 public:
  using Parameters = std::function<std::vector<std::byte>(const Bases&)>;

  PlainStep(std::string source, std::string entry, cuda::PlainGrid grid, std::size_t parameter_bytes,
            Parameters parameters)
      : source_(std::move(source)),
        entry_(std::move(entry)),
        grid_(grid),
        parameter_bytes_(parameter_bytes),
        parameters_(std::move(parameters)) {}

  jit::Request request() const override;
  void load(int device_index, jit::Binary binary) override;
  Launch bind(const Bases& bases) const override;
  const cuda::PlainGrid& grid() const { return grid_; }

 private:
  std::string source_, entry_;
  cuda::PlainGrid grid_;
  std::size_t parameter_bytes_;
  Parameters parameters_;
  std::shared_ptr<const cuda::PlainKernel> kernel_;
};

}  // namespace unisono::network::gpu
