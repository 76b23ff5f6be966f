#pragma once
/// The steps of recurrent layers.

#include "plan/expected.hpp"
#include "tensors/launch.hpp"
#include "tensors/strided.hpp"
#include "unisono/network/recurrence.hpp"

namespace unisono::tensors {

/// Its tensors, see operators::Recurrence. Null: not given.
struct RecurrenceTensors {
  StridedTensor x, weights, to;
  const StridedTensor *extra = nullptr, *lengths = nullptr, *h = nullptr, *c = nullptr;
};

/// A launch a step, two of a GRU whose reset comes ahead of the product; states are kept in scratch memory as numbers.
/// Tensors are 0: x, 1: weights, 2: to, then those of the others that are given. Refuses more steps than a graph takes.
plan::Expected<Launches> recurrence(const operators::Recurrence& op, const RecurrenceTensors& tensors);

}  // namespace unisono::tensors
