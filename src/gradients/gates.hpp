#pragma once
/// Functions of the gates of recurrent layers, as operators that tensors of any shape run through.

#include "unisono/network.hpp"

namespace unisono::autodiff {

/// A function of every element, and its slope there. Both have the argument's shape.
struct Gate {
  NetworkValue value, slope;
};

/// `clip`: of the argument to ±clip; 0: none.
Gate gate_of(const GateFunction& f, NetworkValue x, double clip);

}  // namespace unisono::autodiff
