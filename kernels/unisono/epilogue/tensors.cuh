// Operands [m,n] of a warpgroup's tile, read from memory before their use: a ring of pairs of neighbours in
// registers. A load takes some 700 clocks during a main loop, so that one after another they would take longer than the
// main loop itself.
#pragma once
#include "unisono/epilogue/placed.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

template <class Visitor, int i>
using TensorOf = decltype(Visitor::template tensor<i>(*static_cast<const typename Visitor::Params*>(nullptr)));

// Whether TMA can bring operand i: epilogue/sm90_fetch.cuh.
template <class Visitor, int i>
constexpr int bytes_of() {
  return TensorOf<Visitor, i>::kElementBytes;
}
template <class Visitor, int i>
constexpr bool is_fetchable() {
  return TensorOf<Visitor, i>::kElementBytes == 2 && !TensorOf<Visitor, i>::kPlaced;
}
template <class Visitor, int i, int kEnd>
constexpr int fetchable_tensors() {
  int count = 0;
  for_indices<i, kEnd>([&](auto operand) { count += is_fetchable<Visitor, decltype(operand)::kValue>(); });
  return count;
}

// Whether operand `which` of [i, kEnd) is loaded by lanes: TMA loads the first kFetch that it can.
template <class Visitor, int i, int kEnd, int kFetch>
constexpr bool is_loaded(int which) {
  bool loaded = true;
  int fetched = 0;
  for_indices<i, kEnd>([&](auto operand) {
    constexpr int kOperand = decltype(operand)::kValue;
    const bool comes = fetched < kFetch && is_fetchable<Visitor, kOperand>();
    fetched += comes;
    if (which == kOperand) loaded = !comes;
  });
  return loaded;
}

// Bytes of an element of each of the operands [i, kEnd) that are loaded, together.
template <class Visitor, int i, int kEnd, int kFetch = 0>
constexpr int tensor_bytes() {
  int bytes = 0;
  for_indices<i, kEnd>([&](auto operand) {
    constexpr int kOperand = decltype(operand)::kValue;
    bytes += is_loaded<Visitor, i, kEnd, kFetch>(kOperand) ? bytes_of<Visitor, kOperand>() : 0;
  });
  return bytes;
}

// Whether operand i of [0, kEnd) does not lie as the output does.
template <class Visitor, int i, int kEnd>
constexpr bool is_placed() {
  if constexpr (i < kEnd)
    return TensorOf<Visitor, i>::kPlaced;
  else
    return false;
}

// Operands [i, kEnd): kSlots pairs each, and where the next ones lie: two rows, or two channels of a row. The first
// kFetch that can be are fetched, not loaded.
template <class Visitor, int i, int kEnd, int kSlots, int kFetch = 0,
          bool kLoaded = is_loaded<Visitor, i, kEnd, kFetch>(i), bool kPlaced = is_placed<Visitor, i, kEnd>()>
struct TensorPairs {
  using Source = TensorOf<Visitor, i>;
  typename Source::Pair own[kSlots];
  const u8* from[2];
  TensorPairs<Visitor, i + 1, kEnd, kSlots, kFetch> rest;
  UNISONO_DEVICE void aim(int half, const typename Visitor::Params& p, u64 element, u64 m, int channel) {
    from[half] = static_cast<const u8*>(Visitor::template tensor<i>(p).memory) + element * Source::kElementBytes;
    rest.aim(half, p, element, m, channel);
  }
  UNISONO_DEVICE void load(int slot, int half, bool exists, int elements) {
    own[slot] = exists ? Source::load(from[half] + elements * Source::kElementBytes) : typename Source::Pair{};
    rest.load(slot, half, exists, elements);
  }
  UNISONO_DEVICE void get(int slot, float* x, float* y) const {
    const float2 both = Source::unpack(own[slot]);
    *x = both.x, *y = both.y;
    rest.get(slot, x + 1, y + 1);
  }
  // Turns two channels of one row into two rows of one channel: the lane of the other row and channel has the rest.
  UNISONO_DEVICE void exchange(int slot, bool odd, int distance) {
    own[slot] = Source::exchanged(own[slot], odd, distance);
    rest.exchange(slot, odd, distance);
  }
};
template <class Visitor, int i, int kEnd, int kSlots, int kFetch>
struct TensorPairs<Visitor, i, kEnd, kSlots, kFetch, true, true> {
  using Source = TensorOf<Visitor, i>;
  typename Source::Pair own[kSlots];
  const u8* from[2];
  Source source;
  TensorPairs<Visitor, i + 1, kEnd, kSlots, kFetch> rest;
  UNISONO_DEVICE void aim(int half, const typename Visitor::Params& p, u64 element, u64 m, int channel) {
    source = Visitor::template tensor<i>(p);
    from[half] = static_cast<const u8*>(source.memory) + source.place.offset(int(m), channel) * Source::kElementBytes;
    rest.aim(half, p, element, m, channel);
  }
  UNISONO_DEVICE void load(int slot, int half, bool exists, int elements) {
    own[slot] = exists ? source.pair(from[half] + elements * source.place.column * Source::kElementBytes)
                       : typename Source::Pair{};
    rest.load(slot, half, exists, elements);
  }
  UNISONO_DEVICE void get(int slot, float* x, float* y) const {
    const float2 both = Source::unpack(own[slot]);
    *x = both.x, *y = both.y;
    rest.get(slot, x + 1, y + 1);
  }
  UNISONO_DEVICE void exchange(int slot, bool odd, int distance) {
    own[slot] = Source::exchanged(own[slot], odd, distance);
    rest.exchange(slot, odd, distance);
  }
};
template <class Visitor, int kEnd, int kSlots, int kFetch>
struct TensorPairs<Visitor, kEnd, kEnd, kSlots, kFetch, true, false> {
  UNISONO_DEVICE void aim(int, const typename Visitor::Params&, u64, u64, int) {}
  UNISONO_DEVICE void load(int, int, bool, int) {}
  UNISONO_DEVICE void get(int, float*, float*) const {}
  UNISONO_DEVICE void exchange(int, bool, int) {}
};
template <class Visitor, int i, int kEnd, int kSlots, int kFetch>
struct TensorPairs<Visitor, i, kEnd, kSlots, kFetch, false, false>
    : TensorPairs<Visitor, i + 1, kEnd, kSlots, kFetch - 1> {
  using Rest = TensorPairs<Visitor, i + 1, kEnd, kSlots, kFetch - 1>;
  UNISONO_DEVICE void get(int slot, float* x, float* y) const { Rest::get(slot, x + 1, y + 1); }
};

// The pairs of a tile in the order in which fragments hold them (epilogue/sm90_fragment.cuh): pixels first, pair p is
// block, slice, eight channels, half; channels first, with kSwap, block, 64 channels, eight pixels, half. What lies
// beyond the image's pixels has any value, beyond the channels none.
template <class Visitor, int kFirst, int kEnd, bool kSwap, int kSlice, int kSlices, int kFetch = 0>
struct TensorRing {
  static constexpr int kBytes = tensor_bytes<Visitor, kFirst, kEnd, kFetch>();
  static constexpr int kPairsOfSlice = kSlice / 4;
  static constexpr int kSlots =
      smaller(kPairsOfSlice, kBytes <= 4   ? 16
                             : kBytes <= 8 ? 8
                                           : 4);  // at most 32 registers for up to eight operands
  static constexpr int kOdd = 4;  // with kSwap: lanes that differ in it hold neighbouring channels of the same rows

  const typename Visitor::Params& visitor;
  const ConvGeometry& g;
  const int warp, lane;
  TensorPairs<Visitor, kFirst, kEnd, kSlots, kFetch> pairs = {};

  UNISONO_DEVICE int odd() const { return kSwap ? lane / kOdd & 1 : 0; }
  UNISONO_DEVICE int own_channel() const { return kSwap ? 16 * warp + lane / 4 - odd() : 2 * (lane & 3); }

  template <class At>
  UNISONO_DEVICE void aim(int half, const At& at, int m) {
    const int pixel = at.rows.valid(m) ? at.rows.pixel(m) : 0;
    pairs.aim(half, visitor, (u64(at.image) * g.rows + pixel) * g.channels + at.first_channel + own_channel(),
              u64(at.image) * g.rows + pixel, at.first_channel + own_channel());
  }
  // Pairs are loaded in their order, from the first pair of a slice on.
  template <class At>
  UNISONO_DEVICE void load(int p, const At& at) {
    const int slice = p / kPairsOfSlice, b = slice / kSlices, s = slice % kSlices, j = p % kPairsOfSlice / 2,
              half = p % 2;
    const int channel = kSwap ? 64 * s + 8 * half : s * kSlice + 8 * j;
    if (kSwap && half == 0) aim(0, at, 64 * b + 8 * j + 2 * (lane & 3) + odd());
    if (!kSwap && p % kPairsOfSlice == 0)
      aim(0, at, 64 * b + 16 * warp + lane / 4), aim(1, at, 64 * b + 16 * warp + lane / 4 + 8);
    pairs.load(p % kSlots, kSwap ? 0 : half, channel < g.channels - at.first_channel - own_channel(), channel);
  }
  // The first of the pairs [first, end).
  template <class At>
  UNISONO_DEVICE void open(int first, int end, const At& at) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i)
      if (first + i < end) load(first + i, at);
  }
  // Pair p of each operand; the pair kSlots later takes its place, if it is before `end`.
  template <class At>
  UNISONO_DEVICE void take(int p, int end, float* x, float* y, const At& at) {
    if (kSwap) pairs.exchange(p % kSlots, odd(), kOdd);
    pairs.get(p % kSlots, x, y);
    if (p + kSlots < end) load(p + kSlots, at);
  }
};
// Where there are none to load.
template <class Visitor>
struct NoTensors {
  const typename Visitor::Params& visitor;
  const ConvGeometry& g;
  const int warp, lane;
  template <class At>
  UNISONO_DEVICE void open(int, int, const At&) {}
  template <class At>
  UNISONO_DEVICE void take(int, int, float*, float*, const At&) {}
};
template <class Visitor, int kFirst, int kEnd, bool kSwap, int kSlice, int kSlices, int kFetch = 0>
using PairedTensors = Either<(tensor_bytes<Visitor, kFirst, kEnd, kFetch>() > 0),
                             TensorRing<Visitor, kFirst, kEnd, kSwap, kSlice, kSlices, kFetch>, NoTensors<Visitor>>;

// Where an element of the output, or of an operand [m,n], lies.
struct InPlanes {
  template <class At>
  static UNISONO_DEVICE u64 offset(const ConvGeometry& g, const At& at, int m, int channel) {
    return (u64(at.image) * g.channels + channel) * g.rows + at.rows.pixel(m);
  }
};
struct InRows {
  template <class At>
  static UNISONO_DEVICE u64 offset(const ConvGeometry& g, const At& at, int m, int channel) {
    return (u64(at.image) * g.rows + at.rows.pixel(m)) * g.channels + channel;
  }
};
template <Stores kStores, class At>
UNISONO_DEVICE u64 output_offset(const ConvGeometry& g, const At& at, int m, int channel) {
  return Either<is_in_planes(kStores), InPlanes, InRows>::offset(g, at, m, channel);
}

// The same where neighbours need not be a pair in memory: elements one by one, when they are needed. Zero outside the
// output. The first kFetch that can be are fetched, not loaded.
template <Stores kStores, class Visitor, int kFirst, int kEnd, bool kSwap, int kSlice, int kSlices, int kFetch = 0>
struct PlainTensors {
  static constexpr int kPairsOfSlice = kSlice / 4;

  const typename Visitor::Params& visitor;
  const ConvGeometry& g;
  const int warp, lane;

  template <class At>
  UNISONO_DEVICE void open(int, int, const At&) {}
  template <class At>
  UNISONO_DEVICE void take(int p, int, float* x, float* y, const At& at) const {
    const int slice = p / kPairsOfSlice, b = slice / kSlices, s = slice % kSlices, j = p % kPairsOfSlice / 2,
              half = p % 2;
    const int m = kSwap ? 64 * b + 8 * j + 2 * (lane & 3) : 64 * b + 16 * warp + lane / 4 + 8 * half;
    const int channel =
        at.first_channel + (kSwap ? 64 * s + 16 * warp + lane / 4 + 8 * half : s * kSlice + 8 * j + 2 * (lane & 3));
    load(x, at, m, channel), load(y, at, m + kSwap, channel + !kSwap);
  }
  template <class At>
  UNISONO_DEVICE void load(float* value, const At& at, int m, int channel) const {
    for_indices<kFirst, kEnd>([&](auto operand) {
      constexpr int i = decltype(operand)::kValue;
      if constexpr (is_loaded<Visitor, kFirst, kEnd, kFetch>(i)) value[i - kFirst] = load<i>(at, m, channel);
    });
  }
  template <int i, class At>
  UNISONO_DEVICE float load(const At& at, int m, int channel) const {
    const bool exists = at.rows.valid(m) && channel < g.channels;
    const auto source = Visitor::template tensor<i>(visitor);
    return exists ? source.element(source.offset(output_offset<kStores>(g, at, m, channel),
                                                 u64(at.image) * g.rows + at.rows.pixel(m), channel))
                  : 0.f;
  }
};

// epilogue/sm90_fetch.cuh. Slices: how slices are read; Others: what loads the operands that are not fetched.
template <class Visitor, int kFirst, int kEnd, int kSlice, int kFetch, class Slices, class Others>
struct FetchedTensors;
template <bool kSwap, int kSlice>
struct RowSlices;
template <bool kSwap, int kSlice, bool kTwoDimensional>
struct PlaneSlices;

template <Stores kStores, class Visitor, int kFirst, int kEnd, bool kSwap, int kSlice, int kSlices, int kFetch,
          bool kTwoDimensional>
struct TensorsOf {
  using Type = PlainTensors<kStores, Visitor, kFirst, kEnd, kSwap, kSlice, kSlices>;
};
template <class Visitor, int kFirst, int kEnd, bool kSwap, int kSlice, int kSlices, bool kTwoDimensional>
struct TensorsOf<Stores::kTma, Visitor, kFirst, kEnd, kSwap, kSlice, kSlices, 0, kTwoDimensional> {
  using Type = PairedTensors<Visitor, kFirst, kEnd, kSwap, kSlice, kSlices>;
};
template <class Visitor, int kFirst, int kEnd, bool kSwap, int kSlice, int kSlices, int kFetch, bool kTwoDimensional>
struct TensorsOf<Stores::kTma, Visitor, kFirst, kEnd, kSwap, kSlice, kSlices, kFetch, kTwoDimensional> {
  using Type = FetchedTensors<Visitor, kFirst, kEnd, kSlice, kFetch, RowSlices<kSwap, kSlice>,
                              PairedTensors<Visitor, kFirst, kEnd, kSwap, kSlice, kSlices, kFetch>>;
};
template <class Visitor, int kFirst, int kEnd, bool kSwap, int kSlice, int kSlices, bool kTwoDimensional>
struct TensorsOf<Stores::kPlanesTma, Visitor, kFirst, kEnd, kSwap, kSlice, kSlices, 0, kTwoDimensional> {
  using Type = PlainTensors<Stores::kPlanesTma, Visitor, kFirst, kEnd, kSwap, kSlice, kSlices>;
};
template <class Visitor, int kFirst, int kEnd, bool kSwap, int kSlice, int kSlices, int kFetch, bool kTwoDimensional>
struct TensorsOf<Stores::kPlanesTma, Visitor, kFirst, kEnd, kSwap, kSlice, kSlices, kFetch, kTwoDimensional> {
  using Type = FetchedTensors<Visitor, kFirst, kEnd, kSlice, kFetch, PlaneSlices<kSwap, kSlice, kTwoDimensional>,
                              PlainTensors<Stores::kPlanesTma, Visitor, kFirst, kEnd, kSwap, kSlice, kSlices, kFetch>>;
};

}  // namespace unisono
