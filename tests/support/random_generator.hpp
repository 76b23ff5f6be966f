#pragma once
/// The state of random_graph() while it draws a graph. For random_graph.cpp and random_idioms.cpp only.

#include <algorithm>
#include <memory>
#include <vector>

#include "support/random.hpp"
#include "support/random_graph.hpp"
#include "unisono/builder.hpp"
#include "unisono/contraction.hpp"

namespace unisono::test {

/// Values with a bound on their magnitude, so that what is drawn next stays within range. The bound is a guide, not a
/// guarantee: wild draws ignore it.
class Generator {
 public:
  Generator(std::uint64_t seed, const Extents& extents, const RandomOptions& options, std::shared_ptr<EffectLog> log);
  Graph run();

 private:
  // Choosing
  Value pick();
  Value pick_float();
  Value pick_bool();
  Value pick_or_number();
  Value remember(Value v, double limit);
  double limit(Value v) const { return v.id() < limits_.size() && limits_[v.id()] > 0 ? limits_[v.id()] : 2; }

  // Guards
  Value within(Value v, double bound);  // |result| <= bound
  Value positive(Value v);              // 0.1 or more
  Value number(double v) { return g_.constant(v); }

  // Drawing: each remembers what it draws
  void leaf();
  Value operand(const std::string& name, Axes axes);
  void operation();
  void binary();
  void unary();
  void comparison();
  void selection();
  void cast_value();
  void reduction();
  void normalisation();
  void one_hot_value();
  void function_call();
  void effect();
  void stores();
  ReduceDomain domain();
  Axes small_axes_for(const Value& x);

  // Composites that passes may recognise (random_idioms.cpp)
  void idiom();
  Value activation_spelt_out(Value x);
  Value cross_entropy(Value logit);
  Value algebra(Value x);
  Value reduction_idiom(Value x);

  Random r_;
  Extents extents_;
  const RandomOptions& options_;
  std::shared_ptr<EffectLog> log_;
  GraphBuilder g_;
  std::vector<Value> pool_;
  std::vector<double> limits_;  // by id; 0 if unknown
  int operands_ = 0;
};

}  // namespace unisono::test
