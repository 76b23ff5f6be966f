// The steps of recurrent layers (operators::Recurrence), a launch a step.
#pragma once
#include "unisono/tensor/functions.cuh"
#include "unisono/tensor/space.cuh"
#include "unisono/tensor/team.cuh"

namespace unisono::tensor {

// In the order of GateFunction::Kind.
enum GateKind : int {
  kAffine,
  kElu,
  kHardSigmoid,
  kLeakyRelu,
  kReluGate,
  kScaledTanh,
  kSigmoid,
  kSoftplus,
  kSoftsign,
  kTanh,
  kThresholdedRelu
};

template <class T>
UNISONO_DEVICE T gate_function(const GateParams& f, T x) {
  const T alpha = T(f.alpha), beta = T(f.beta), linear = alpha * x + beta;
  switch (f.kind) {
    case kAffine: return linear;
    case kElu: return x < 0 ? alpha * expm1(x) : x;
    case kHardSigmoid: return linear < 0 ? T(0) : linear > 1 ? T(1) : linear;
    case kLeakyRelu: return x < 0 ? alpha * x : x;
    case kReluGate: return x < 0 ? T(0) : x;
    case kScaledTanh: return alpha * tanh(beta * x);
    case kSigmoid: return 1 / (1 + exp(-x));
    case kSoftplus: return (x < 0 ? T(0) : x) + log1p(exp(-absolute(x)));
    case kSoftsign: return x / (1 + absolute(x));
    case kTanh: return tanh(x);
    default: return x > alpha ? x : T(0);
  }
}

enum class Cell { kRnn, kGru, kLstm };
// A step or a part of one. A GRU whose reset comes before the product takes two: `kReset` makes z and what the
// product reads.
enum class Part { kWhole, kReset, kCandidate };

// A state of a direction's row, in scratch memory.
UNISONO_DEVICE u64 state_at(const RecurrenceParams& p, u32 direction, u32 row, u32 unit) {
  return (u64(direction) * p.rows + row) * p.hidden + unit;
}
template <class To>
UNISONO_DEVICE void store_state(const RecurrenceParams& p, i64 place, u32 direction, u32 row, u32 unit,
                                NumberOf<To> x) {
  const auto& s = p.to.strides;
  store<To>(p.to.memory, place * s[0] + row * s[1] + i64(direction * p.hidden + unit) * s[2], x);
}

// States before the first step.
template <class H, class C, class To, bool kHasCell>
UNISONO_DEVICE void begin_recurrence(const RecurrenceParams& p) {
  using Number = NumberOf<To>;
  const u64 all = u64(p.directions) * p.rows * p.hidden;
  for (u64 i = first_index(); i < all; i += index_step()) {
    const u32 unit = u32(i % p.hidden), row = u32(i / p.hidden % p.rows), direction = u32(i / p.hidden / p.rows);
    const i64 column = i64(direction) * p.hidden + unit;
    const auto at = [&](const StridedView& v) { return row * v.strides[0] + column * v.strides[1]; };
    const Number h = p.h.memory == nullptr ? Number(0) : load<H>(p.h.memory, at(p.h));
    static_cast<Number*>(p.after)[i] = h;
    if (p.last) store_state<To>(p, 0, direction, row, unit, h);
    if constexpr (kHasCell) {
      const Number c = p.c.memory == nullptr ? Number(0) : load<C>(p.c.memory, at(p.c));
      static_cast<Number*>(p.second)[i] = c;
      if (p.last) store_state<To>(p, 1, direction, row, unit, c);
    }
  }
}

// One unit of a row: what enters its gates, and what they make of it.
template <class X, class E, class To, Cell kCell, Part kPart>
struct Unit {
  using Number = NumberOf<To>;
  static constexpr int kGates = kCell == Cell::kRnn ? 1 : kCell == Cell::kGru ? 3 : 4;
  static constexpr int kFunctions = kCell == Cell::kRnn ? 1 : kCell == Cell::kGru ? 2 : 3;

  const RecurrenceParams& p;
  u32 direction, row, unit;
  i64 time;

  UNISONO_DEVICE Number input(int gate) const {
    const auto& s = p.x.strides;
    const i64 column = i64(direction * kGates + gate) * p.hidden + unit;
    return load<X>(p.x.memory, time * s[0] + row * s[1] + column * s[2]);
  }
  UNISONO_DEVICE Number extra(int i) const {
    if (p.extra.memory == nullptr) return Number(0);
    return load<E>(p.extra.memory, direction * p.extra.strides[0] + (i64(i) * p.hidden + unit) * p.extra.strides[1]);
  }
  UNISONO_DEVICE Number apply(int f, Number x) const {
    const Number most = Number(p.clip);
    if (most > 0) x = x < -most ? -most : x > most ? most : x;
    return function(f, x);
  }
  UNISONO_DEVICE Number function(int f, Number x) const {
    return gate_function(p.functions[direction * kFunctions + f], x);
  }

  // `sums`: the products with the state that this part takes. `before`: the state; `second`: an LSTM's cell, or z.
  UNISONO_DEVICE Number state(const Number* sums, Number before, Number& second) const {
    if constexpr (kCell == Cell::kRnn) {
      return apply(0, sums[0] + input(0));
    } else if constexpr (kCell == Cell::kLstm) {
      const auto seen = [&](int gate) { return sums[gate] + input(gate) + extra(gate) * second; };
      const Number in = apply(0, seen(0)), forget = p.input_forget ? 1 - in : apply(0, seen(2));
      second = forget * second + in * apply(1, sums[3] + input(3));
      return apply(0, seen(1)) * function(2, second);
    } else if constexpr (kPart == Part::kReset) {  // what the product reads
      second = apply(0, sums[0] + input(0));
      return apply(0, sums[1] + input(1)) * before;
    } else if constexpr (kPart == Part::kCandidate) {
      return next(sums[0], before, second);
    } else {
      second = apply(0, sums[0] + input(0));
      return next(apply(0, sums[1] + input(1)) * (sums[2] + extra(0)), before, second);
    }
  }
  // The next state of a GRU
  UNISONO_DEVICE Number next(Number own, Number before, Number z) const {
    return (1 - z) * apply(1, own + input(2)) + z * before;
  }
};

// A CTA takes 32 units of a few rows: its warps share the sums of their products.
constexpr u32 kUnits = 32, kSlices = kTeamThreads / kUnits, kRows = 4;

template <class X, class W, class E, class To, Cell kCell, Part kPart>
struct Step {
  using Of = Unit<X, E, To, kCell, kPart>;
  using Number = NumberOf<To>;
  static constexpr int kFirst = kPart == Part::kCandidate ? 2 : 0;
  static constexpr int kProducts = kPart == Part::kCandidate ? 1 : kPart == Part::kReset ? 2 : Of::kGates;
  static constexpr int kStates = kCell == Cell::kLstm ? 2 : 1;
  static constexpr bool kUsesSecond = kCell != Cell::kRnn && !(kCell == Cell::kGru && kPart == Part::kWhole);

  const RecurrenceParams& p;
  u32 direction, unit;

  // Every eighth product of a unit, from `slice` on
  UNISONO_DEVICE void multiply(u32 slice, u32 first_row, Number (&sums)[kProducts][kRows]) const {
    const auto* factor = static_cast<const Number*>(kPart == Part::kCandidate ? p.masked : p.before);
    const auto& s = p.weights.strides;
    for (u32 k = slice; k < p.hidden; k += kSlices) {
      Number x[kRows];
      for (u32 r = 0; r < kRows; ++r)
        x[r] = first_row + r < p.rows ? factor[state_at(p, direction, first_row + r, k)] : Number(0);
      for (int g = 0; g < kProducts; ++g) {
        const i64 column = i64(kFirst + g) * p.hidden + unit;
        const Number w = load<W>(p.weights.memory, direction * s[0] + k * s[1] + column * s[2]);
        for (u32 r = 0; r < kRows; ++r) sums[g][r] += w * x[r];
      }
    }
  }

  UNISONO_DEVICE void finish(u32 row, const Number* sums) const {
    const i64 time = p.reverse || direction == 1 ? i64(p.steps) - 1 - p.step : p.step;
    const bool runs = p.lengths.memory == nullptr || time < load<i32>(p.lengths.memory, row * p.lengths.strides[0]);
    const u64 at = state_at(p, direction, row, unit);
    Number second = kUsesSecond ? static_cast<Number*>(p.second)[at] : Number(0);
    const Number old = static_cast<const Number*>(p.before)[at];
    const Number now = runs ? Of{p, direction, row, unit, time}.state(sums, old, second) : old;
    if constexpr (kUsesSecond) static_cast<Number*>(p.second)[at] = second;
    if constexpr (kPart == Part::kReset) {
      static_cast<Number*>(p.masked)[at] = now;
    } else {
      static_cast<Number*>(p.after)[at] = now;
      store_state<To>(p, kStates + time, direction, row, unit, runs ? now : Number(0));
      if (p.last) store_state<To>(p, 0, direction, row, unit, now);
      if (kStates == 2 && p.last) store_state<To>(p, 1, direction, row, unit, second);
    }
  }
};

template <class X, class W, class E, class To, Cell kCell, Part kPart>
UNISONO_DEVICE void recurrent_step(const RecurrenceParams& p) {
  using Of = Step<X, W, E, To, kCell, kPart>;
  using Number = NumberOf<To>;
  __shared__ Number shared[kSlices][Of::kProducts][kRows][kUnits];
  const u32 lane = threadIdx.x % kUnits, slice = threadIdx.x / kUnits;
  const u32 unit_blocks = (p.hidden + kUnits - 1) / kUnits, row_blocks = (p.rows + kRows - 1) / kRows;
  for (u64 work = Team<kTeamThreads>::first(); work < u64(p.directions) * row_blocks * unit_blocks;
       work += Team<kTeamThreads>::step()) {
    const Of step{p, u32(work / unit_blocks / row_blocks), u32(work % unit_blocks) * kUnits + lane};
    const u32 first_row = u32(work / unit_blocks % row_blocks) * kRows, row = first_row + slice;
    Number sums[Of::kProducts][kRows] = {};
    if (step.unit < p.hidden) step.multiply(slice, first_row, sums);
    for (int g = 0; g < Of::kProducts; ++g)
      for (u32 r = 0; r < kRows; ++r) shared[slice][g][r][lane] = sums[g][r];
    __syncthreads();
    if (slice < kRows && row < p.rows && step.unit < p.hidden) {
      Number all[Of::kProducts] = {};
      for (int g = 0; g < Of::kProducts; ++g)
        for (u32 i = 0; i < kSlices; ++i) all[g] += shared[i][g][slice][lane];
      step.finish(row, all);
    }
    __syncthreads();
  }
}

}  // namespace unisono::tensor
