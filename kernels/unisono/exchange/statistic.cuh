// What CTAs exchange. A statistic is a trivially copyable struct of floats that are merged, always in an order that the
// exchange fixes:
//
//   struct S {
//     static constexpr int kFloats;
//     static S identity();                            merged with x it gives x
//     void merge(const S& other);                     `other` comes after this one in the order
//     float packed(int i) const;                      float i as it travels: exchange/message.cuh
//     static S unpack(const Packed& at);              from at(i), float i of such
//     struct Result; Result result() const;           what a reader wants of all parts together
//     struct Merger;                                  of parts, one by one: add(const S&), S total()
//     struct Batches;                                 of parts as they arrive: add<n>(part, bool first), where part(i)
//                                                     is an S, and S total()
//     static S over_lanes(S own, int lanes);          of a power of two of neighbouring lanes, in the first; by whole
//                                                     warps
//   };
//
// The last three exist because a statistic may lose fewer digits than merging pair by pair would, as moments do
// (exchange/moments.cuh). One that has nothing to lose takes those below (exchange/reductions.cuh).
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

template <class S>
struct PairwiseMerger {
  S all = S::identity();
  UNISONO_DEVICE void add(const S& part) { all.merge(part); }
  UNISONO_DEVICE S total() const { return all; }
};

template <class S>
struct PairwiseBatches {
  S all = S::identity();
  template <int kBatch, class Part>
  UNISONO_DEVICE void add(const Part& part, bool) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) all.merge(part(i));
  }
  UNISONO_DEVICE S total() const { return all; }
};

template <class S>
UNISONO_DEVICE S pairwise_over_lanes(S all, int lanes) {
  __syncwarp();
  for (int distance = 1; distance < lanes; distance *= 2) {
    all.merge(S::unpack([&](int i) { return __shfl_xor_sync(~0u, all.packed(i), distance); }));
  }
  return all;
}

}  // namespace unisono
