// Kernels generated from an epilogue graph whose reductions run along rows, such as a layer norm: its reductions and
// its elements in one launch.
#pragma once
#include "unisono/plain/plain_graph.cuh"

namespace unisono::plain {

template <class State>
UNISONO_DEVICE State shuffled(const State& state, u32 lane) {
  float own[State::kFloats], given[State::kFloats];
  state.put(own);
#pragma unroll
  for (int i = 0; i < State::kFloats; ++i) given[i] = __shfl_sync(~0u, own[i], int(lane));
  State other;
  other.get(given);
  return other;
}

// The states of `lanes` neighbouring threads joined, in a fixed order and the same in all of them. A power of two up to
// 32, or kStripThreads: then all threads of the CTA call it.
template <class State>
UNISONO_DEVICE State joined_along(State state, u32 lanes) {
  __shared__ float warps[kStripThreads / 32][State::kFloats];
  const u32 lane = threadIdx.x % 32;
  for (u32 apart = least(lanes, 32) / 2; apart > 0; apart /= 2) {
    const State other = shuffled(state, lane ^ apart);
    state.join(other);
  }
  state = shuffled(state, lane & ~(least(lanes, 32) - 1));
  if (lanes <= 32) return state;
  __syncthreads();  // what the row before left there has been read
  if (lane == 0) state.put(warps[threadIdx.x / 32]);
  __syncthreads();
  State other;
  state.get(warps[0]);
  for (u32 warp = 1; warp < kStripThreads / 32; ++warp) {
    other.get(warps[warp]);
    state.join(other);
  }
  return state;
}

// A thread's place among those that have rows: `lanes` have one, a CTA has `rows` at a time.
struct RowLanes {
  u32 lanes, lane, rows, octets;
  UNISONO_DEVICE explicit RowLanes(const GraphParams& p)
      : lanes(p.strips), lane(threadIdx.x % lanes), rows(kStripThreads / lanes), octets((p.columns - 1) / 8 + 1) {}
};

// One pass over a row. Pass: a State, kInputs operands [m,n], load, input, and finish, which puts the results into
// `reduced`. Threads without a row join as well.
template <class Pass>
UNISONO_DEVICE void reduce_row(const GraphParams& p, const RowLanes& at, u32 image, u32 row, bool has_row,
                               float* reduced) {
  typename Pass::State::Running running;
  if (has_row) {
    for (u32 octet = at.lane; octet < at.octets; octet += at.lanes) {
      const u32 channel = 8 * octet;
      Octet inputs[Pass::kInputs + 1];
      Pass::load(p, row, channel, inputs);
#pragma unroll
      for (u32 k = 0; k < 8; ++k) {
        float given[Pass::kInputs + 1];
#pragma unroll
        for (int j = 0; j < Pass::kInputs; ++j) given[j] = inputs[j].of[k];
        if (channel + k < p.columns) running.take(Pass::input(p, image, row, channel + k, given, reduced));
      }
    }
  }
  Pass::finish(joined_along(running.state(), at.lanes), reduced);
}

// The stores of an octet.
template <class Values>
UNISONO_DEVICE void store_row_octet(const GraphParams& p, u32 image, u32 row, u32 channel,
                                    const float (&fixed)[8][Values::kFixed + 1], const float* reduced) {
  Octet inputs[Values::kInputs + 1], outputs[Values::kOutputs];
  Values::load(p, row, channel, inputs);
#pragma unroll
  for (u32 k = 0; k < 8; ++k) {
    float given[Values::kInputs + 1], made[Values::kOutputs];
#pragma unroll
    for (int j = 0; j < Values::kInputs; ++j) given[j] = inputs[j].of[k];
    Values::element(p, image, row, least(channel + k, p.columns - 1), fixed[k], given, reduced, made);
#pragma unroll
    for (int j = 0; j < Values::kOutputs; ++j) outputs[j].of[k] = made[j];
  }
  Values::store(p, row, channel, outputs);
}

// Every element of the graph's stores. Values: as `elements` takes them, with kReduced results of the Passes, which
// come in the order in which they need each other.
template <class Values, class... Passes>
UNISONO_DEVICE void rows(const GraphParams& p) {
  const RowLanes at(p);
  const u32 count = p.images * p.pixels;
  float fixed[8][Values::kFixed + 1];
  u32 fixed_image = ~0u, fixed_octet = ~0u;  // what `fixed` is of
  for (u64 first = u64(blockIdx.x) * at.rows; first < count; first += u64(gridDim.x) * at.rows) {
    const u64 wanted = first + threadIdx.x / at.lanes;
    const bool has_row = wanted < count;
    const u32 row = has_row ? u32(wanted) : count - 1, image = row / p.pixels;
    float reduced[Values::kReduced];
    (reduce_row<Passes>(p, at, image, row, has_row, reduced), ...);
    if (!has_row) continue;
    for (u32 octet = at.lane; octet < at.octets; octet += at.lanes) {
      if (fixed_image != image || fixed_octet != octet) {
#pragma unroll
        for (u32 k = 0; k < 8; ++k) Values::fix(p, image, least(8 * octet + k, p.columns - 1), fixed[k]);
        fixed_image = image, fixed_octet = octet;
      }
      store_row_octet<Values>(p, image, row, 8 * octet, fixed, reduced);
    }
  }
}

}  // namespace unisono::plain
