// Elementwise computations over tensors of any type that broadcast. Program is generated (src/tensors/map_text.cpp):
//
//   static constexpr int kTensors, kElements;   inputs and outputs; elements of a chunk
//   static void run(const MapParams<kTensors>&, const i64 (&offsets)[kTensors], int here);
//                                               the chunk of `here` elements at these offsets
#pragma once
#include "unisono/epilogue/math.cuh"
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/chunk.cuh"
#include "unisono/tensor/functions.cuh"

namespace unisono::tensor {

template <class Program>
UNISONO_DEVICE void map(const MapParams<Program::kTensors>& p) {
  const IndexSpace& space = p.head.space;
  for (u64 i = first_index(); i < space.count; i += index_step()) {
    i64 offsets[Program::kTensors] = {};
    u32 chunk = 0;
    for_places(space, u32(i), [&](u32 axis, u32 place) {
      if (axis == space.axes - 1) chunk = place;
#pragma unroll
      for (int t = 0; t < Program::kTensors; ++t) offsets[t] += place * p.tensors[t].view.strides[axis];
    });
    const u32 left = p.head.length - chunk * Program::kElements;
    Program::run(p, offsets, left < Program::kElements ? int(left) : Program::kElements);
  }
}

}  // namespace unisono::tensor
