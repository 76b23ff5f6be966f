#include "command/kernel_check.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "lower/lower.hpp"
#include "runtime/cpu/vector/unit.hpp"
#include "runtime/cuda/backend.hpp"
#include "tuner/error_model.hpp"

namespace unisono::command {
namespace {

using Expected = std::map<std::string, reference::Values>;

Tensor32 magnitudes(const media::Array& array, const std::string& name) {
  Tensor32 tensor = to_tensor32(array, name);
  for (float& x : tensor.value) x = std::abs(x);
  return tensor;
}

/// The accumulators of tensor cores are off by a part of the sum of the products' magnitudes.
reference::Values device_accumulators(const KernelProblem& p, const unisono::Arguments& arguments, std::size_t factor,
                                      const ConstTensorView& of) {
  reference::Values acc = reference::contract(p.contraction, arguments.a(p.contraction), of);
  const std::string &a = p.inputs[0].name, &b = p.inputs[factor].name;
  const Tensor32 left = magnitudes(p.arrays.at(a), a), right = magnitudes(p.arrays.at(b), b);
  const reference::Values sums =
      reference::contract(p.contraction, {left.value.data(), DType::f32, arguments.a(p.contraction).shape, {}},
                          {right.value.data(), DType::f32, of.shape, {}});
  const double error = tuner::accumulator_error(p.contraction);
  for (std::size_t i = 0; i < acc.bound.size(); ++i) acc.bound[i] = error * sums.value[i];
  return acc;
}

Expected expected_on_device(const KernelProblem& p, const unisono::Arguments& arguments,
                            const CompileOptions& options) {
  const lower::Lowered kernel =
      lower::lower(p.contraction, p.graph, options, cuda::open_device(options.device_index)).value();
  const reference::Values acc = device_accumulators(p, arguments, 1, arguments.b(p.contraction));
  reference::Values acc1;
  if (product_count(p.contraction) == 2) acc1 = device_accumulators(p, arguments, 2, arguments.right1);
  return reference::evaluate(p.graph, p.contraction, acc, acc1, arguments,
                             tuner::error_model(p.contraction, p.graph, options.accurate, kernel.plan().numerics));
}

}  // namespace

KernelAgreements check_kernel(KernelProblem& p, const CompileOptions& options) {
  const unisono::Arguments arguments = p.arguments();
  const Expected expected = options.device == Device::cuda ? expected_on_device(p, arguments, options)
                                                           : reference::run(p.contraction, p.graph, arguments,
                                                                            {.function_ulps = cpu::function_ulps});
  KernelAgreements agreements;
  for (const auto& [name, values] : expected) {
    const Store& store = *std::ranges::find(p.graph.stores, name, &Store::name);
    agreements.emplace_back(name, reference::compare(values, store, p.contraction, arguments.outputs.at(name)));
  }
  return agreements;
}

bool is_right(const reference::Agreement& a) { return a.ok() && a.unclaimed < a.elements; }

}  // namespace unisono::command
