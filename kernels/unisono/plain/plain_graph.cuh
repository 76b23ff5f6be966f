// What kernels that are generated from an epilogue graph without a contraction are made of: elements, and reductions by
// one CTA each.
#pragma once
#include "unisono/exchange/moments.cuh"
#include "unisono/plain/plain.cuh"

namespace unisono::plain {

// An element of any operand, by its place in the table.
template <class Element>
UNISONO_DEVICE float element(const PlainTensor& tensor, i64 offset) {
  return Element::unpack(__ldg(static_cast<const u16*>(tensor.memory) + offset)).x;
}
template <>
UNISONO_DEVICE float element<float>(const PlainTensor& tensor, i64 offset) {
  return __ldg(static_cast<const float*>(tensor.memory) + offset);
}

// The sum or the largest of one number a thread, the same in every thread. In a fixed order, so that results repeat.
template <int kThreads, class Join>
UNISONO_DEVICE float join_cta(float x, const Join& join) {
  __shared__ float scratch[kThreads];
  scratch[threadIdx.x] = x;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (int(threadIdx.x) < half) scratch[threadIdx.x] = join(scratch[threadIdx.x], scratch[threadIdx.x + half]);
    __syncthreads();
  }
  x = scratch[0];
  __syncthreads();
  return x;
}

// The rows and columns that one result is made of.
struct Domain {
  u32 row, rows, column, columns;
  UNISONO_DEVICE u64 count() const { return u64(rows) * columns; }
};

// Joins value(row, column) over the domain, beginning with `start`.
template <int kThreads, class Value, class Join>
UNISONO_DEVICE float reduce(const Domain& d, float start, const Value& value, const Join& join) {
  float x = start;
  for (u64 i = threadIdx.x; i < d.count(); i += kThreads)
    x = join(x, value(d.row + u32(i / d.columns), d.column + u32(i % d.columns)));
  return join_cta<kThreads>(x, join);
}

struct Sum {
  UNISONO_DEVICE float operator()(float x, float y) const { return x + y; }
};
struct Largest {
  UNISONO_DEVICE float operator()(float x, float y) const { return math::max(x, y); }
};
struct Smallest {
  UNISONO_DEVICE float operator()(float x, float y) const { return math::min(x, y); }
};

template <int kThreads, class Value>
UNISONO_DEVICE float mean(const Domain& d, const Value& value) {
  return reduce<kThreads>(d, 0.f, value, Sum()) / float(d.count());
}
// The mean of the squares of the distances from the mean, which is found first.
template <int kThreads, class Value>
UNISONO_DEVICE float variance(const Domain& d, const Value& value) {
  const float centre = mean<kThreads>(d, value);
  return mean<kThreads>(d, [&](u32 row, u32 column) {
    const float distance = value(row, column) - centre;
    return distance * distance;
  });
}

// The rows of an image that a CTA has, and which of them and which octets of channels are this thread's: neighbouring
// threads have neighbouring octets, and a thread keeps its octet from row to row, so that what depends on the channel
// alone is loaded once.
constexpr u32 kStripThreads = 256;
UNISONO_DEVICE u32 least(u64 a, u64 b) { return u32(a < b ? a : b); }
struct Strip {
  u32 image, first, last, octets, width, octet, lane, lanes;
  UNISONO_DEVICE explicit Strip(const GraphParams& p) {
    const u32 rows = (p.pixels - 1) / p.strips + 1, strip = blockIdx.x % p.strips;
    image = blockIdx.x / p.strips;
    first = least(u64(strip) * rows, p.pixels), last = least(u64(first) + rows, p.pixels);
    first += image * p.pixels, last += image * p.pixels;
    octets = (p.columns - 1) / 8 + 1, width = least(octets, kStripThreads);
    octet = threadIdx.x % width, lane = threadIdx.x / width, lanes = kStripThreads / width;
    if (lane >= lanes) first = last;
  }
};

// Every element of the graph's stores. Values: kInputs operands [m,n], kFixed values of an image's channels, kOutputs
// stores; fix, load, element and store.
template <class Values>
UNISONO_DEVICE void elements(const GraphParams& p) {
  const Strip strip(p);
  for (u32 octet = strip.octet; octet < strip.octets; octet += strip.width) {
    const u32 channel = 8 * octet;
    float fixed[8][Values::kFixed + 1];
#pragma unroll
    for (u32 k = 0; k < 8; ++k) Values::fix(p, strip.image, least(channel + k, p.columns - 1), fixed[k]);
#pragma unroll 2
    for (u32 row = strip.first + strip.lane; row < strip.last; row += strip.lanes) {
      Octet inputs[Values::kInputs + 1], outputs[Values::kOutputs];
      Values::load(p, row, channel, inputs);
#pragma unroll
      for (u32 k = 0; k < 8; ++k) {
        float given[Values::kInputs + 1], made[Values::kOutputs];
#pragma unroll
        for (int j = 0; j < Values::kInputs; ++j) given[j] = inputs[j].of[k];
        Values::element(p, strip.image, row, least(channel + k, p.columns - 1), fixed[k], given, made);
#pragma unroll
        for (int j = 0; j < Values::kOutputs; ++j) outputs[j].of[k] = made[j];
      }
      Values::store(p, row, channel, outputs);
    }
  }
}

// --- reductions over rows: a state a strip and result, then the states of a result joined; both in a fixed order ---

// Number, mean and sum of the squares of the distances from it. What one thread takes goes to sums around its first
// number, which lies close enough to the mean for nothing to cancel.
struct MomentState {
  static constexpr int kFloats = 3;
  Moments of{0.f, 0.f, 0.f};
  struct Running {
    float count = 0.f, origin = 0.f, sum = 0.f, squares = 0.f;
    UNISONO_DEVICE void take(float x) {
      if (count == 0.f) origin = x;
      const float distance = x - origin;
      count += 1.f, sum += distance, squares = fmaf(distance, distance, squares);
    }
    UNISONO_DEVICE MomentState state() const {
      MomentState s;
      if (count == 0.f) return s;
      const float shift = sum / count, around = fmaf(-shift, sum, squares);
      s.of = {count, origin + shift, around < 0.f ? 0.f : around};
      return s;
    }
  };
  UNISONO_DEVICE void join(const MomentState& other) { merge(of, other.of.count, other.of.mean, other.of.m2); }
  UNISONO_DEVICE void put(float* to) const { to[0] = of.count, to[1] = of.mean, to[2] = of.m2; }
  UNISONO_DEVICE void get(const float* from) { of = {from[0], from[1], from[2]}; }
};

// One number, joined by an operation with its neutral element.
template <class Operation>
struct Folded {
  static constexpr int kFloats = 1;
  float value = Operation::neutral();
  struct Running {
    float value = Operation::neutral();
    UNISONO_DEVICE void take(float x) { value = Operation()(value, Operation::term(x)); }
    UNISONO_DEVICE Folded state() const {
      Folded f;
      f.value = value;
      return f;
    }
  };
  UNISONO_DEVICE void join(const Folded& other) { value = Operation()(value, other.value); }
  UNISONO_DEVICE void put(float* to) const { *to = value; }
  UNISONO_DEVICE void get(const float* from) { value = *from; }
};
struct FoldSum : Sum {
  UNISONO_DEVICE static float neutral() { return 0.f; }
  UNISONO_DEVICE static float term(float x) { return x; }
};
struct FoldSquares : FoldSum {
  UNISONO_DEVICE static float term(float x) { return x * x; }
};
struct FoldLargest : Largest {
  UNISONO_DEVICE static float neutral() { return -__int_as_float(0x7f800000); }
  UNISONO_DEVICE static float term(float x) { return x; }
};
struct FoldSmallest : Smallest {
  UNISONO_DEVICE static float neutral() { return __int_as_float(0x7f800000); }
  UNISONO_DEVICE static float term(float x) { return x; }
};

// States of a CTA's rows, one for each of `results` groups of neighbouring columns: to[CTA][result], kFloats each.
// Values: kInputs operands [m,n], load and input. A group may reach over several chunks of columns; then its thread
// takes its state up again.
template <class State, class Values>
UNISONO_DEVICE void partials(const GraphParams& p, u32 results, const PlainTensor& to) {
  __shared__ float states[8 * kStripThreads * State::kFloats];  // [lane][column of the chunk]
  const Strip strip(p);
  const u32 width = p.columns / results, chunk = 8 * strip.width;
  float* const mine = static_cast<float*>(const_cast<void*>(to.memory)) + u64(blockIdx.x) * results * State::kFloats;
  for (u32 base = 0; base < p.columns; base += chunk) {
    const u32 channel = base + 8 * strip.octet, columns = least(chunk, p.columns - base);
    typename State::Running running[8];
    if (channel < p.columns) {
#pragma unroll 4
      for (u32 row = strip.first + strip.lane; row < strip.last; row += strip.lanes) {
        Octet inputs[Values::kInputs + 1];
        Values::load(p, row, channel, inputs);
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
          float given[Values::kInputs + 1];
#pragma unroll
          for (int j = 0; j < Values::kInputs; ++j) given[j] = inputs[j].of[k];
          running[k].take(Values::input(p, strip.image, row, least(channel + k, p.columns - 1), given));
        }
      }
    }
    if (strip.lane < strip.lanes)
#pragma unroll
      for (u32 k = 0; k < 8; ++k)
        running[k].state().put(states + (strip.lane * chunk + 8 * strip.octet + k) * State::kFloats);
    __syncthreads();
    for (u32 column = threadIdx.x; column < columns; column += kStripThreads) {
      State all, other;
      all.get(states + column * State::kFloats);
      for (u32 lane = 1; lane < strip.lanes; ++lane) {
        other.get(states + (lane * chunk + column) * State::kFloats);
        all.join(other);
      }
      all.put(states + column * State::kFloats);
    }
    __syncthreads();
    const u32 past = (base + columns - 1) / width + 1;
    for (u32 result = threadIdx.x; result < past; result += kStripThreads) {
      const u32 begin = result * width, end = begin + width;
      if (end <= base) continue;
      State all, other;
      if (begin < base) all.get(mine + result * State::kFloats);
      for (u32 column = begin < base ? base : begin; column < least(end, base + columns); ++column) {
        other.get(states + (column - base) * State::kFloats);
        all.join(other);
      }
      all.put(mine + result * State::kFloats);
    }
    __syncthreads();
  }
}

// Joins the states of each result, a warp each, and calls put(index, state): those of an image's strips, or of all
// images'.
template <class State, bool kPerImage, class Put>
UNISONO_DEVICE void join_partials(const GraphParams& p, u32 results, const PlainTensor& from, const Put& put) {
  const u32 lane = threadIdx.x % 32, index = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const u32 image = index / results, result = index % results, images = kPerImage ? p.images : 1u;
  if (image >= images) return;
  const u32 parts = kPerImage ? p.strips : p.strips * p.images;
  const float* first =
      static_cast<const float*>(from.memory) + (u64(image) * parts * results + result) * State::kFloats;
  State all, other;
  for (u32 part = lane; part < parts; part += 32) {
    other.get(first + u64(part) * results * State::kFloats);
    all.join(other);
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    float own[State::kFloats], given[State::kFloats];
    all.put(own);
#pragma unroll
    for (int i = 0; i < State::kFloats; ++i) given[i] = __shfl_down_sync(~0u, own[i], apart);
    other.get(given);
    all.join(other);
  }
  if (lane == 0) put(index, all);
}

UNISONO_DEVICE void put(const PlainTensor& tensor, u64 offset, float x) {
  static_cast<float*>(const_cast<void*>(tensor.memory))[offset] = x;
}
UNISONO_DEVICE void put_once(const PlainTensor& tensor, u64 offset, float x) {
  if (threadIdx.x == 0) put(tensor, offset, x);
}

}  // namespace unisono::plain
