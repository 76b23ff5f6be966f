#include "random_networks/gradients.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "reference/network/evaluate.hpp"
#include "unisono/error.hpp"
#include "unisono/gradients.hpp"

namespace unisono::test {

namespace {

using float64::Tensor64;
using float64::Tensors64;

// Random factors for the elements of an output
std::vector<float> factors(std::size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> f(count);
  for (float& x : f) x = normal(random);
  return f;
}

std::size_t elements(const Shape& shape) {
  std::size_t n = 1;
  for (const Dim& d : shape) n *= static_cast<std::size_t>(d.value());
  return n;
}

Loss sum_of_outputs(std::mt19937_64& random) {
  return [&random](NetworkBuilder& net, const NamedTensors& tensors) {
    NetworkValue sum = net.constant(0.0);
    bool any = false;
    for (const std::string& name : tensors.outputs()) {
      const NetworkValue y = tensors.at(name);
      const std::size_t count = elements(y.shape());
      if (y.dtype() != DType::f32 || count == 0) continue;
      const NetworkValue factor = net.constant("factors of " + name, y.shape(), factors(count, random));
      sum = sum + net.apply(operators::Reduce{.op = ReduceOp::sum, .axes = {}, .keep = false}, {y * factor});
      any = true;
    }
    if (!any) throw UserError("no output has elements of f32");
    return sum;
  };
}

// Numbers for all symbols in the shapes of inputs
std::map<std::string, std::int64_t> known_extents(const Network& n, const std::map<std::string, CaseTensor>& inputs) {
  std::map<std::string, std::int64_t> extents;
  for (const TensorId id : n.inputs) {
    const auto& shape = inputs.at(n[id].name).shape;
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (!n[id].shape[i].known()) extents[n[id].shape[i].symbol()] = shape[i];
  }
  return extents;
}

// What the loss alone needs
Network loss_alone(Network n) {
  std::vector<bool> needed(n.tensors.size(), false);
  std::erase_if(n.outputs, [&](TensorId id) { return n[id].name != "loss"; });
  needed[n.outputs.at(0)] = true;
  std::vector<Operator> kept;
  for (std::size_t i = n.operators.size(); i-- > 0;) {
    if (!needed[n.operators[i].output]) continue;
    for (const TensorId id : n.operators[i].inputs) needed[id] = true;
    kept.push_back(n.operators[i]);
  }
  n.operators.assign(kept.rbegin(), kept.rend());
  return n;
}

CaseTensor moved(CaseTensor t, std::mt19937_64& random) {
  std::uniform_real_distribution<float> part(-0x1p-7f, 0x1p-7f);
  for (std::size_t i = 0; i + sizeof(float) <= t.bytes.size(); i += sizeof(float)) {
    float x;
    std::memcpy(&x, t.bytes.data() + i, sizeof x);
    x += part(random) * (std::abs(x) + 0x1p-4f);
    std::memcpy(t.bytes.data() + i, &x, sizeof x);
  }
  return t;
}

Tensor64 as_tensor64(const CaseTensor& t, const std::string& name) {
  auto values = float64::as_float64({t.bytes.data(), t.dtype, t.shape, {}}, name);
  std::vector<double> bounds(values.size(), 0.0);
  return {t.shape, std::move(values), std::move(bounds), t.dtype};
}

class Slopes {
 public:
  Slopes(const Network& network, Tensors64 point, const std::map<std::string, std::string>& gradients)
      : loss_(loss_alone(network)),
        point_(std::move(point)),
        names_(gradients),
        at_point_(float64::evaluate_network(network, point_)) {}

  // Compares along a random direction in the tensors of these names
  std::string compare(const std::vector<std::string>& names, std::mt19937_64& random, bool& undecided) const {
    std::normal_distribution<double> normal;
    Tensors64 direction;
    double slope = 0, size = 0;
    for (const std::string& name : names) {
      Tensor64& d = direction[name] = point_.at(name);
      const std::vector<double>& g = at_point_.at(names_.at(name)).value;
      for (std::size_t i = 0; i < g.size(); ++i) {
        d.value[i] = normal(random) * (std::abs(d.value[i]) + 0x1p-4);
        slope += g[i] * d.value[i], size += std::abs(g[i] * d.value[i]);
      }
    }
    if (!std::isfinite(slope)) return {};  // so is the loss, or its slope
    constexpr double h = 1e-6;
    const double middle = at_point_.at("loss").value[0], up = loss_at(direction, h), down = loss_at(direction, -h);
    const double central = (up - down) / (2 * h), forward = (up - middle) / h, backward = (middle - down) / h;
    if (!std::isfinite(central)) return {};
    // float64's roundoff of the loss over the step, and the curvature
    const double allowed = 1e-5 * (size + std::abs(central)) + 1e-7 * (1 + std::abs(middle));
    if (std::abs(central - slope) <= allowed) return {};
    // a kink, curvature that is large for this step, or roundoff that is
    const double wider = (loss_at(direction, 3 * h) - loss_at(direction, -3 * h)) / (6 * h);
    const double doubt = std::max(std::abs(forward - backward), std::abs(wider - central));
    if (doubt > 0.1 * std::abs(central - slope)) return undecided = true, "";
    return fmt::format("the slope along '{}' (of {}) is {:.9g} by central differences, {:.9g} by gradients", names[0],
                       names.size(), central, slope);
  }

 private:
  double loss_at(const Tensors64& direction, double step) const {
    Tensors64 moved = point_;
    for (const auto& [name, d] : direction)
      for (std::size_t i = 0; i < d.value.size(); ++i) moved.at(name).value[i] += step * d.value[i];
    return float64::evaluate_network(loss_, moved).at("loss").value[0];
  }

  Network loss_;
  Tensors64 point_;
  const std::map<std::string, std::string>& names_;
  Tensors64 at_point_;
};

std::vector<std::string> inputs_of_f32(const Network& n) {
  std::vector<std::string> names;
  for (const TensorId id : n.inputs)
    if (n[id].dtype == DType::f32) names.push_back(n[id].name);
  return names;
}

}  // namespace

GradientCase gradient_case(const Network& network, const std::map<std::string, CaseTensor>& inputs,
                           std::uint64_t seed) {
  std::mt19937_64 random(seed);
  GradientOptions options{
      .extents = known_extents(network, inputs), .inputs = inputs_of_f32(network), .batch_statistics = seed % 2 == 0};
  const GradientNetwork g = gradients(network, sum_of_outputs(random), options);
  GradientCase result{g.network, inputs, {}, false};
  std::map<std::string, std::string> names = g.input_gradients;
  for (const std::string& name : options.inputs) result.inputs[name] = moved(result.inputs.at(name), random);
  for (const NetworkParameter& p : g.parameters) {
    const auto bytes = std::as_bytes(std::span(*p.values));
    result.inputs[p.name] = moved({DType::f32, p.shape, {bytes.begin(), bytes.end()}}, random);
    names[p.name] = p.gradient;
  }
  if (names.empty()) throw UserError("nothing has a gradient");
  for (const NetworkTensor& t : network.tensors)
    if (is_float(t.dtype) && size_of(t.dtype) < 4) throw UserError("it rounds to 16 bits: differences say nothing");
  Tensors64 point;
  for (const auto& [name, t] : result.inputs) point[name] = as_tensor64(t, name);
  const Slopes slopes(g.network, std::move(point), names);
  std::vector<std::string> all;
  for (const auto& [name, gradient] : names) all.push_back(name);
  for (int i = 0; i < 2 && result.wrong.empty(); ++i) result.wrong = slopes.compare(all, random, result.undecided);
  for (std::size_t i = 0; i < all.size() && i < 6 && result.wrong.empty(); ++i)
    result.wrong = slopes.compare({all[i]}, random, result.undecided);
  return result;
}

}  // namespace unisono::test
