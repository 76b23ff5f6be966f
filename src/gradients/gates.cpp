#include "gradients/gates.hpp"

#include "gradients/values.hpp"
#include "unisono/error.hpp"

namespace unisono::autodiff {

namespace {

class GateArgument {
 public:
  explicit GateArgument(NetworkValue x) : x_(x) {}

  NetworkValue number(double value) const { return x_.builder().constant(value); }
  NetworkValue above(double bound) const { return mapped(MapOp::greater, {x_, number(bound)}); }
  NetworkValue where(NetworkValue condition, NetworkValue a, NetworkValue b) const {
    return repeated_as(mapped(MapOp::select, {condition, a, b}), x_);
  }

  Gate through(const GateFunction& f) const {
    using Kind = GateFunction::Kind;
    const NetworkValue x = x_, zero = number(0), one = number(1);
    switch (f.kind) {
      case Kind::affine: return {x * f.alpha + f.beta, filled(x.builder(), extents_of(x), f.alpha)};
      case Kind::elu: return {elu(x, f.alpha), where(above(0), one, exp(x) * f.alpha)};
      case Kind::hard_sigmoid: return hard_sigmoid_of(f.alpha, f.beta);
      case Kind::leaky_relu: return {where(above(0), x, x * f.alpha), where(above(0), one, number(f.alpha))};
      case Kind::relu: return {relu(x), where(above(0), one, zero)};
      case Kind::scaled_tanh: {
        const NetworkValue y = tanh(x * f.beta);
        return {y * f.alpha, (1.0 - square(y)) * (f.alpha * f.beta)};
      }
      case Kind::sigmoid: {
        const NetworkValue y = sigmoid(x);
        return {y, y * (1.0 - y)};
      }
      case Kind::softplus: return {softplus(x), sigmoid(x)};
      case Kind::softsign: {
        const NetworkValue size = abs(x) + 1.0;
        return {x / size, reciprocal(square(size))};
      }
      case Kind::tanh: {
        const NetworkValue y = tanh(x);
        return {y, 1.0 - square(y)};
      }
      case Kind::thresholded_relu: return {where(above(f.alpha), x, zero), where(above(f.alpha), one, zero)};
    }
    throw InternalError("unknown function of a gate");
  }

 private:
  Gate hard_sigmoid_of(double alpha, double beta) const {
    const NetworkValue line = x_ * alpha + beta, inside = min(max(line, 0.0), 1.0);
    return {inside, where(mapped(MapOp::equal, {line, inside}), number(alpha), number(0))};
  }

  NetworkValue x_;
};

}  // namespace

Gate gate_of(const GateFunction& f, NetworkValue x, double clip) {
  if (clip == 0) return GateArgument(x).through(f);
  const NetworkValue clipped = min(max(x, -clip), clip);
  const Gate gate = GateArgument(clipped).through(f);
  const NetworkValue is_inside = mapped(MapOp::equal, {x, clipped});
  return {gate.value, mapped(MapOp::select, {is_inside, gate.slope, x.builder().constant(0.0)})};
}

}  // namespace unisono::autodiff
