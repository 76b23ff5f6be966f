#pragma once
/// What an optimiser does to parameters.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/training.hpp"

namespace unisono::training {

/// A parameter with its states. Each has one element a value; those that the optimiser does not have are empty.
struct LearntParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  std::vector<float> first, second;  ///< adamw: m and v; sgd with momentum: the first
  std::vector<float> average;
  std::vector<float> accumulated;  ///< sum of gradients since the last update
  double weight_decay = 0, learning_rate = 1;
};

/// Throws UserError, which names the field, for one outside its range.
void check(const Optimiser& o);

/// Parameters with the states that the optimiser begins with, and what their groups say. Throws UserError for a group
/// that names none.
std::vector<LearntParameter> learnt_parameters(const std::vector<NetworkParameter>& parameters, const Optimiser& o);

/// √Σ g² over all of them, in the order in which they stand, in float64.
double norm_of(std::span<const std::vector<float>> gradients);

/// What an update of a parameter is made with. adamw: the part of a value that decay leaves, and the learning rate over
/// 1 − beta1^update. sgd: the decay, and the learning rate.
struct Rates {
  float decay = 0, rate = 0;
};
/// `weight_decay`, `factor`: LearntParameter's.
Rates rates_of(const Optimiser& o, double weight_decay, double factor, double learning_rate, std::int64_t update);
/// √(1 − beta2^update)
float root_of(const Optimiser& o, std::int64_t update);

/// One update by `scale` times the gradient; `update` counts from 1.
void update(LearntParameter& p, std::span<const float> gradient, double scale, const Optimiser& o, double learning_rate,
            std::int64_t update);

}  // namespace unisono::training
