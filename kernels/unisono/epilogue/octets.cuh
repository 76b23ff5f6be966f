// Tensor operands, eight neighbouring channels at a time.
#pragma once
#include "unisono/epilogue/placed.cuh"

namespace unisono {

// Eight neighbouring channels of one row of each of the visitor's tensor operands [i, Visitor::kTensors).
template <class Visitor, int i, bool kAny>
struct Octets {
  typename decltype(Visitor::template tensor<i>(*static_cast<const typename Visitor::Params*>(nullptr)))::Octet own;
  Octets<Visitor, i + 1, (i + 1 < Visitor::kTensors)> rest;
  // `offset`: of the first in a tensor of rows of that many channels that lies as the output does.
  UNISONO_DEVICE void load(const typename Visitor::Params& p, u64 offset, int channels) {
    const auto source = Visitor::template tensor<i>(p);
    own = source.octet(source.offset(offset, offset / channels, int(offset % channels)));
    rest.load(p, offset, channels);
  }
  UNISONO_DEVICE void pair(int w, float* x, float* y) const {
    const float2 both = own.pair(w);
    *x = both.x, *y = both.y;
    rest.pair(w, x + 1, y + 1);
  }
};
template <class Visitor, int i>
struct Octets<Visitor, i, false> {
  UNISONO_DEVICE void load(const typename Visitor::Params&, u64, int) {}
  UNISONO_DEVICE void pair(int, float*, float*) const {}
};

}  // namespace unisono
