#include <cmath>

#include "support/random_generator.hpp"

namespace unisono::test {

// Activations in terms of simpler operations, in the spellings that people write
Value Generator::activation_spelt_out(Value x) {
  const double sqrt2 = std::sqrt(2.0), sqrt_2_over_pi = std::sqrt(2 / 3.14159265358979323846);
  switch (r_.below(24)) {
    case 0: return x * sigmoid(x);
    case 1: return sigmoid(x) * x;
    case 2: return x / (1 + exp(-x));
    case 3: return 1 / (1 + exp(-x));
    case 4: return reciprocal(exp(-x) + 1);
    case 5: return log(sigmoid(x));
    case 6: return log(1 - sigmoid(x));
    case 7: return log(1 + exp(x));
    case 8: return log1p(exp(x));
    case 9: return tanh(softplus(x)) * x;
    case 10: return x * tanh(log(1 + exp(x)));
    case 11: return x * 0.5 * (1 + erf(x / sqrt2));
    case 12: return 0.5 * x * (erf(x * (1 / sqrt2)) + 1);
    case 13: return 0.5 * x * (1 + tanh(sqrt_2_over_pi * (x + 0.044715 * pow(x, 3))));
    case 14: return x * hardsigmoid(x);
    case 15: return x * relu6(x + 3) / 6;
    case 16: return max(x, 0);
    case 17: return min(max(x, 0), 6);
    case 18: return select(x > 0, x, 0.1 * x);
    case 19: return select(x > 0, x, exp(x) - 1);
    case 20: return max(min(x, 1.5), -0.5);
    case 21: return clamp(clamp(x, -2, 1), -1, 3);
    case 22: return 1 / sqrt(abs(x) + 0.5);
    default: return relu(min(x, 6));
  }
}

// Binary cross entropy of a target in [0, 1] with a logit, as papers write it
Value Generator::cross_entropy(Value logit) {
  const Value t = sigmoid(within(pick_float(), 4));
  const Value target = r_.chance(0.5) ? t : cast(t > 0.5, DType::f32);
  const Value p = sigmoid(logit);
  if (r_.chance(0.3)) remember(p - target, 2);  // the gradient, which reads p too
  const Value one = number(1);
  const auto product = [&](Value x, Value y) { return r_.chance(0.5) ? x * y : y * x; };
  const auto total = [&](Value x, Value y) { return r_.chance(0.5) ? x + y : y + x; };
  const Value hit = product(target, log(p)), miss = product(one - target, log(one - p));
  Value loss = r_.chance(0.7) ? -total(hit, miss) : (-hit) - miss;
  if (r_.chance(0.3)) return options_.reductions ? (r_.chance(0.5) ? sum(loss) : mean(loss)) : loss;
  if (options_.reductions && r_.chance(0.3))
    loss = r_.chance(0.5) ? -mean(total(hit, miss)) : -sum(total(hit, miss), over_n);
  return loss;
}

Value Generator::algebra(Value x) {
  const Value y = pick_float(), z = pick_float();
  switch (r_.below(33)) {
    case 0: return x * within(y, 20) + z;
    case 1: return z + x * within(y, 20);
    case 2: return x * within(y, 20) - z;
    case 3: return -(-x);
    case 4: return abs(-x);
    case 5: return abs(abs(x));
    case 6: return x + (-y);
    case 7: return x - (-y);
    case 8: return x / 4;
    case 9: return x / 3;
    case 10: return x * 1 + 0;
    case 11: return x - x;
    case 12: return cast(cast(x, DType::f64), DType::f32);
    case 13: return cast(cast(x, DType::bf16), DType::f32);
    case 14: return cast(cast(x, DType::bf16), DType::bf16);
    case 15: return select(x > y, x, y);
    case 16: return select(x < 0, -x, x);
    case 17: return select(logical_not(x < y), x, z);
    case 18: return square(-x);
    case 19: return x * 2 * 4;
    case 20: return (x + 1) + 2;
    case 21: return -(x * within(y, 20));
    case 22: return x * (number(2) + 3);
    case 23: return number(0.5) * number(0.25) + cast(x, DType::bf16);
    case 24: return pow(x, 2);
    case 25: return pow(positive(x), 0.5);
    case 26: return exp(log(positive(x)));
    case 27: return one_hot(g_.index(Coordinate::m)) * x;
    case 28: return sqrt(square(x));
    case 29: return cast(number(0.1), DType::bf16) * 3 + x;
    case 30: return cast(cast(number(0.7), DType::bf16) + 0.01, DType::f32) * x;
    case 31: return max(number(0), x);
    default: return (x - y) + (x - y);
  }
}

Value Generator::reduction_idiom(Value x) {
  const Value scalar = sigmoid(operand("x" + std::to_string(operands_++), axes::scalar));
  const Value column = operand("x" + std::to_string(operands_++), axes::n);
  const Value row = operand("x" + std::to_string(operands_++), axes::m);
  OperandOptions label;
  label.storage = DType::i32;
  const ReduceDomain d = domain();
  switch (r_.below(15)) {
    case 0: return sum(one_hot(g_.operand("label" + std::to_string(operands_++), axes::m, label)), over_n);
    case 1: return sum(one_hot(g_.operand("label" + std::to_string(operands_++), axes::m, label)) * x, over_n);
    case 2: return sum(column, d);
    case 3: return mean(row, d);
    case 4: return reduce_max(column, d) - reduce_min(row, d);
    case 5: return sum(scalar * x, d);
    case 6: return sum(x * x, d);
    case 7: return sum(square(x), d);
    case 8: return (x - mean(x, d)) * rsqrt(variance(x, d) + 1e-3);
    case 9: return layer_norm(x) + sum(x, over_n);
    case 10: return sum(-x, d);
    case 11: return sum(mean(x, domain()), d);
    case 13: return log(softmax(x, d));
    case 12: {
      const Value inner = reduce_max(x, domain());
      return mean(x * inner, d);
    }
    default: return mean(x * 0.5, d);
  }
}

void Generator::idiom() {
  const Value x = within(pick_float(), 8);
  const double a = limit(x);
  switch (r_.below(8)) {
    case 0:
    case 1:
    case 2: remember(activation_spelt_out(x), std::max(a, 6.0)); break;
    case 3: remember(cross_entropy(x), options_.reductions ? 1e4 : 20); break;
    case 4:
    case 5:
    case 6: remember(algebra(x), 300); break;
    default:
      if (options_.reductions) {
        remember(reduction_idiom(x), 1e4);
      } else {
        remember(algebra(x), 300);
      }
  }
}

}  // namespace unisono::test
