#pragma once
/// Gradients of filters by a plan of choice, for tests and benchmarks.

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "jit/jit.hpp"
#include "plan/device.hpp"
#include "products/sm90_filter_gradient.hpp"
#include "runtime/cuda/plain.hpp"
#include "unisono/executable.hpp"

namespace unisono::gpu {

/// A plan of either kernel: by matrix instructions of warps, or of warpgroups.
using FilterGradientWay = std::variant<products::FilterGradientPlan, products::Sm90FilterGradientPlan>;
double clocks_of(const FilterGradientWay& way);

/// All of a problem, the fastest predicted first; completes the problem.
std::vector<FilterGradientWay> filter_gradient_ways(products::FilterGradientProblem& problem,
                                                    const plan::Device& device);

struct FilterGradientMemory {
  const void *x = nullptr, *g = nullptr;
  void *result = nullptr, *partials = nullptr;
};

class FilterGradientKernels {
 public:
  FilterGradientKernels(const products::FilterGradientProblem& problem, const FilterGradientWay& way,
                        const plan::Device& device);

  const std::string& how() const { return kernels_.front().how; }
  int launches() const { return static_cast<int>(kernels_.size()); }
  std::int64_t partial_bytes() const { return partial_bytes_; }
  std::vector<jit::Request> requests(const plan::Device& device) const;
  /// Compiles and loads them on the GPU under test.
  void load();
  std::vector<Launch> bind(const FilterGradientMemory& memory) const;

 private:
  template <class Parameters>
  std::vector<Launch> bind_all(const Parameters& p, std::vector<families::Parameter::Map> maps) const;

  std::vector<products::Kernel> kernels_;
  std::vector<std::shared_ptr<const cuda::PlainKernel>> loaded_;
  std::int64_t partial_bytes_ = 0;
  std::variant<FilterGradientParams, Sm90FilterGradientParams> parameters_;
  products::PixelMap image_, gradient_;
  DType element_{};
};

}  // namespace unisono::gpu
