// Chains of operators. Program is generated (src/tensors/chain_text.cpp):
//
//   static constexpr int kTeam;   threads of a line, which may exchange numbers: up to 32, or of any number else
//   static void run(const ChainParams<kTensors>&, int n);   the elements of thread n
#pragma once
#include "unisono/epilogue/math.cuh"
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/chunk.cuh"
#include "unisono/tensor/functions.cuh"

namespace unisono::tensor {

// The last line again for teams that fill up the last warp, whose lanes exchange numbers: they store the same again.
template <class Program, int kTensors>
UNISONO_DEVICE void chain(const ChainParams<kTensors>& p) {
  const u64 whole = (u64(p.threads) + 31) / 32 * 32;
  for (u64 i = first_index(); i < whole; i += index_step())
    Program::run(p, int(i < p.threads ? u32(i) : p.threads - Program::kTeam + u32(i) % Program::kTeam));
}

// A place of a table, for threads whose place lies outside
UNISONO_DEVICE int inside(int place, int count) { return place < 0 ? 0 : place < count ? place : count - 1; }

// What is folded along a line: an element as a term, two terms, and none.
struct LineSum {
  static UNISONO_DEVICE float start() { return 0.f; }
  static UNISONO_DEVICE float term(float x) { return x; }
  static UNISONO_DEVICE float join(float x, float y) { return x + y; }
};
struct LineSquares : LineSum {
  static UNISONO_DEVICE float term(float x) { return x * x; }
};
struct LineMagnitudes : LineSum {
  static UNISONO_DEVICE float term(float x) { return fabsf(x); }
};
struct LineProduct {
  static UNISONO_DEVICE float start() { return 1.f; }
  static UNISONO_DEVICE float term(float x) { return x; }
  static UNISONO_DEVICE float join(float x, float y) { return x * y; }
};
// A NaN wins.
struct LineLargest {
  static UNISONO_DEVICE float start() { return -__int_as_float(0x7f800000); }
  static UNISONO_DEVICE float term(float x) { return x; }
  static UNISONO_DEVICE float join(float x, float y) { return x != x || x > y ? x : y; }
};
struct LineSmallest {
  static UNISONO_DEVICE float start() { return __int_as_float(0x7f800000); }
  static UNISONO_DEVICE float term(float x) { return x; }
  static UNISONO_DEVICE float join(float x, float y) { return x != x || x < y ? x : y; }
};

// The terms of a team of neighbouring threads, joined in each of them, in a fixed order.
template <int kThreads, class Line>
UNISONO_DEVICE float over_team(float x) {
#pragma unroll
  for (int apart = kThreads / 2; apart > 0; apart /= 2) x = Line::join(x, __shfl_xor_sync(~0u, x, apart));
  return x;
}

}  // namespace unisono::tensor
