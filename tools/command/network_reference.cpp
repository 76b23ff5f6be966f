#include "command/network_reference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "coda/error.hpp"
#include "command/reference_operators.hpp"

namespace coda::command {
namespace {

Tensor64 constant(const NetworkTensor& tensor) {
  Tensor64 x;
  for (const Dim& dim : tensor.shape) x.shape.push_back(dim.value());
  x.value.assign(tensor.constant->begin(), tensor.constant->end());
  x.bound.assign(x.value.size(), 0.0);
  return x;
}

/// How many operators and outputs still need each tensor.
std::vector<int> count_uses(const Network& network) {
  std::vector<int> uses(network.tensors.size(), 0);
  for (const Operator& op : network.operators) {
    for (const TensorId id : op.inputs) ++uses[id];
  }
  for (const TensorId id : network.outputs) ++uses[id];
  return uses;
}

/// Values move by their bound; where there is none (infinity), they stay.
void disturb(Tensor64& x, std::mt19937_64& random) {
  for (std::size_t i = 0; i < x.value.size(); ++i) {
    if (std::isfinite(x.bound[i]) && std::isfinite(x.value[i]))
      x.value[i] += random() % 2 == 0 ? x.bound[i] : -x.bound[i];
  }
}

double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::abs(a - b);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

NetworkAgreement compare(const std::string& name, const Tensor64& expected, const Tensor64& disturbed,
                         const std::vector<float>& actual) {
  NetworkAgreement a{.output = name, .elements = static_cast<std::int64_t>(actual.size())};
  if (actual.size() != expected.value.size()) {
    throw InternalError(
        fmt::format("output '{}' has {} elements, its reference {}", name, actual.size(), expected.value.size()));
  }
  double moved = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double shift = difference(disturbed.value[i], expected.value[i]);
    if (std::isfinite(shift)) moved = std::max(moved, shift);
    if (std::isfinite(expected.value[i])) a.largest_value = std::max(a.largest_value, std::abs(expected.value[i]));
  }
  a.tolerance = 4 * moved + 0x1p-24 * a.largest_value;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = difference(actual[i], expected.value[i]);
    a.largest_error = std::max(a.largest_error, error);
    a.outside += error > a.tolerance ? 1 : 0;
  }
  return a;
}

}  // namespace

Tensors64 evaluate_network(const Network& network, const Tensors64& inputs, const TensorObserver& observer) {
  std::vector<Tensor64> tensors(network.tensors.size());
  for (const TensorId id : network.inputs) {
    const auto found = inputs.find(network[id].name);
    if (found == inputs.end()) throw UserError(fmt::format("input '{}' is missing", network[id].name));
    tensors[id] = found->second;
  }
  for (TensorId id = 0; id < tensors.size(); ++id) {
    if (network[id].bytes)
      throw Unsupported(fmt::format("the float64 reference has no tensors of {}, such as '{}'; run without --check",
                                    to_string(network[id].dtype), network[id].name));
    if (network[id].constant) tensors[id] = constant(network[id]);
  }
  std::vector<int> uses = count_uses(network);
  for (const Operator& op : network.operators) {
    std::vector<const Tensor64*> operands;
    for (const TensorId id : op.inputs) operands.push_back(&tensors[id]);
    Tensor64 result = evaluate_operator(op.kind, operands);
    if (observer) observer(op, result);
    for (const TensorId id : op.inputs) {
      if (--uses[id] == 0) tensors[id] = {};
    }
    tensors[op.output] = std::move(result);
  }
  Tensors64 outputs;
  for (const TensorId id : network.outputs) outputs[network[id].name] = tensors[id];
  return outputs;
}

std::vector<NetworkAgreement> check_network(const Network& network, const Tensors64& inputs,
                                            const std::map<std::string, std::vector<float>>& outputs,
                                            const TensorObserver& progress) {
  const Tensors64 expected = evaluate_network(network, inputs, progress);
  std::mt19937_64 random(1);
  const Tensors64 disturbed = evaluate_network(network, inputs, [&](const Operator& op, Tensor64& result) {
    if (progress) progress(op, result);
    disturb(result, random);
  });
  std::vector<NetworkAgreement> agreements;
  agreements.reserve(outputs.size());
  for (const auto& [name, actual] : outputs)
    agreements.push_back(compare(name, expected.at(name), disturbed.at(name), actual));
  return agreements;
}

}  // namespace coda::command
