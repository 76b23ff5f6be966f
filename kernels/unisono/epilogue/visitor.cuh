// What generated code supplies. A visitor is a struct:
//
//   using Output = Bf16 or F16;              element type of the result (second pass: float, too)
//   using Side = Bf16 or F16;                element type of the second store
//   static constexpr SideStore kSide;        whether there is one, and where its value comes from
//   struct Params;                           operands' pointers and scalars, 8 bytes each, in the order of the
//                                            generator's fields
//   struct Uniform;                          values without axes; kept in registers
//   static Uniform uniform(const Params&);   computed once a thread
//
//   static constexpr int kColumnsBefore, kColumnsAfter;   values with axes [n], [b], [b,n]: floats a channel,
//                                                         computed once a tile
//   static void columns_before(const Params&, const Uniform&, int image, int channel, float* column);
//   static void columns_after(const Params&, const Uniform&, int image, int channel, float* column);
//
//   static constexpr int kTensorsBefore, kTensors;        operands [m,n]; `before` reads [0, kTensorsBefore), `after`
//                                                         the rest
//   template <int i> static auto tensor(const Params&);   TensorSource<Element> of operand i, or PlacedSource
//
// Without a normalisation `after` is all there is: x is the accumulator. With one, y = (before(acc) - mean) * factor +
// shift:
//
//   static float before(float acc, const float* column, const float* tensor, const Uniform&);
//   static float after(float y, float raw, const float* column, const float* tensor, const Uniform&);
//                                            raw: before(acc), if kRaw (resident mode only), else 0
//   static float side(float v, const float* column, const float* tensor, const Uniform&);
//                                            the second store's value. SideStore::kBefore: v is the accumulator, the
//                                                columns and
//                                            tensors are those of `before`; kAfter: as `after`, without raw
//   static constexpr bool kRaw;
//   struct Late;                             what `affine` needs of the operands; loaded before the wait for the
//                                            statistics
//   static Late late(const Params&, const Uniform&, int image, int channel);
//   static float2 affine(const Late&, const Uniform&, float mean, float variance);       {factor, shift} of a channel
//   static constexpr bool kStatistics;       whether the following stores anything
//   static void statistics(const Params&, const Uniform&, int image, int group, float mean, float variance);
//                                            stores with axes [b,g]; by one thread a group
//
// Over the channels of one pixel (Norm::kRows) mean and variance are a row's: `affine` is called once a row with an
// empty Late, so factors and shifts with axis n belong to `after`; raw and statistics are not there.
//
// In a dual product (Operands::kProducts of tile/layout.cuh) `acc` is the first accumulator, and the second stands
// after the operands [m,n] of the list: before's is tensor[kTensorsBefore], without a normalisation after's is
// tensor[kTensors - kTensorsBefore].
//
// An epilogue for the second pass alone (plan/second_pass.hpp) has no `after`, nor a second store after the
// normalisation, but:
//
//   struct Row;                              values of a row that elements after the normalisation read
//   static Row row(const Params&, const Uniform&, const Where&);
//   static constexpr int kResults, kDirect;  values [m,n] that are stored after it; of these the last kDirect go from
//                                            registers. Output is that of the first: float if it is one of them
//   static void results(float y, const float* column, const float* tensor, const Row&, const Uniform&, bool exists,
//                       float* result);      exists: the element is one of the output's; functions are called for their
//                                            effect only then
//   template <int i> static auto direct(const Params&, void* main);   ResultTarget<Element> of the i-th of these; main:
//                                            the main store's memory (epilogue/results.cuh)
//
// A normalisation over the channels of rows may have these, too (epilogue/row_results.cuh), and
//
//   static constexpr bool kRowsBefore;       if true, `before` and a second store before the normalisation take a
//                                            Row before the Uniform
//
// `column` and `tensor` in before, after and side are indexed from 0 in their own list: after's tensor[0] is operand
// kTensorsBefore. All are static and UNISONO_DEVICE; those that a mode does not call may be left out only if a
// template.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

// Where a row is: which of all images' rows, and its image, if tiles know images.
struct Where {
  int image, m;
};

enum class SideStore { kNone, kBefore, kAfter };

// An operand [m,n] in the output's layout. `offset` counts elements; for a pair it is a multiple of 2, for an octet
// of 8. Operands that lie elsewhere: epilogue/placed.cuh.
template <class Element>
struct TensorSource {
  static constexpr int kElementBytes = 2;
  static constexpr bool kPlaced = false;
  using Pair = u32;  // two neighbours, as they lie in memory
  const void* memory;
  struct Octet {
    uint4 words;
    UNISONO_DEVICE float2 pair(int i) const {
      return Element::unpack(i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w);
    }
  };
  static UNISONO_DEVICE Pair load(const u8* pair) { return __ldg(reinterpret_cast<const u32*>(pair)); }
  static UNISONO_DEVICE float2 unpack(Pair pair) { return Element::unpack(pair); }
  // (x, y) of an even lane and of the odd lane `distance` away become both lanes' x in the even one, their y in the odd
  // one.
  static UNISONO_DEVICE Pair exchanged(Pair own, bool odd, int distance) {
    const u32 other = __shfl_xor_sync(~0u, own, distance);
    return odd ? other >> 16 | (own & 0xffff0000u) : (own & 0xffffu) | other << 16;
  }
  // Neighbours that lie apart, four pairs of neighbours, and pair i of those that lie at `words`.
  static UNISONO_DEVICE Pair load_apart(const u8* one, const u8* two) {
    return u32(__ldg(reinterpret_cast<const u16*>(one))) | u32(__ldg(reinterpret_cast<const u16*>(two))) << 16;
  }
  static UNISONO_DEVICE Octet octet_of(Pair a, Pair b, Pair c, Pair d) { return {{a, b, c, d}}; }
  static UNISONO_DEVICE float2 pair_of(const u32* words, int i) { return unpack(words[i]); }
  UNISONO_DEVICE Octet octet(u64 offset) const { return {__ldg(static_cast<const uint4*>(memory) + offset / 8)}; }
  UNISONO_DEVICE float element(u64 offset) const {
    return Element::unpack(__ldg(static_cast<const u16*>(memory) + offset)).x;
  }
  // Where the element of row m of all images is, `dense` being its place in the output.
  UNISONO_DEVICE u64 offset(u64 dense, u64, int) const { return dense; }
};
template <>
struct TensorSource<float> {
  static constexpr int kElementBytes = 4;
  static constexpr bool kPlaced = false;
  using Pair = float2;
  const void* memory;
  struct Octet {
    float4 low, high;
    UNISONO_DEVICE float2 pair(int i) const {
      return i == 0   ? float2{low.x, low.y}
             : i == 1 ? float2{low.z, low.w}
             : i == 2 ? float2{high.x, high.y}
                      : float2{high.z, high.w};
    }
  };
  static UNISONO_DEVICE Pair load(const u8* pair) { return __ldg(reinterpret_cast<const float2*>(pair)); }
  static UNISONO_DEVICE float2 unpack(Pair pair) { return pair; }
  static UNISONO_DEVICE Pair exchanged(Pair own, bool odd, int distance) {
    const float other = __shfl_xor_sync(~0u, odd ? own.x : own.y, distance);
    return odd ? float2{other, own.y} : float2{own.x, other};
  }
  static UNISONO_DEVICE Pair load_apart(const u8* one, const u8* two) {
    return {__ldg(reinterpret_cast<const float*>(one)), __ldg(reinterpret_cast<const float*>(two))};
  }
  static UNISONO_DEVICE Octet octet_of(Pair a, Pair b, Pair c, Pair d) {
    return {{a.x, a.y, b.x, b.y}, {c.x, c.y, d.x, d.y}};
  }
  static UNISONO_DEVICE float2 pair_of(const u32* words, int i) {
    return {__uint_as_float(words[2 * i]), __uint_as_float(words[2 * i + 1])};
  }
  UNISONO_DEVICE float element(u64 offset) const { return __ldg(static_cast<const float*>(memory) + offset); }
  UNISONO_DEVICE Octet octet(u64 offset) const {
    const float4* at = static_cast<const float4*>(memory) + offset / 4;
    return {__ldg(at), __ldg(at + 1)};
  }
  UNISONO_DEVICE u64 offset(u64 dense, u64, int) const { return dense; }
};
// Integers travel as floats by their bits, bools, a byte each, as 0 and 1.
template <>
struct TensorSource<int> : TensorSource<float> {};
template <>
struct TensorSource<bool> {
  static constexpr int kElementBytes = 1;
  static constexpr bool kPlaced = false;
  using Pair = u32;  // two bytes
  const void* memory;
  struct Octet {
    uint2 words;
    UNISONO_DEVICE float2 pair(int i) const { return unpack((i < 2 ? words.x : words.y) >> 16 * (i % 2)); }
  };
  static UNISONO_DEVICE Pair load(const u8* pair) { return __ldg(reinterpret_cast<const u16*>(pair)); }
  static UNISONO_DEVICE float2 unpack(Pair pair) { return {pair & 0xff ? 1.f : 0.f, pair & 0xff00 ? 1.f : 0.f}; }
  static UNISONO_DEVICE Pair exchanged(Pair own, bool odd, int distance) {
    const u32 other = __shfl_xor_sync(~0u, own, distance);
    return odd ? (other >> 8 & 0xff) | (own & 0xff00) : (own & 0xff) | (other & 0xff) << 8;
  }
  static UNISONO_DEVICE Pair load_apart(const u8* one, const u8* two) { return u32(__ldg(one)) | u32(__ldg(two)) << 8; }
  static UNISONO_DEVICE Octet octet_of(Pair a, Pair b, Pair c, Pair d) { return {{a | b << 16, c | d << 16}}; }
  static UNISONO_DEVICE float2 pair_of(const u32* words, int i) { return unpack(words[i / 2] >> 16 * (i % 2)); }
  UNISONO_DEVICE float element(u64 offset) const { return __ldg(static_cast<const u8*>(memory) + offset) ? 1.f : 0.f; }
  UNISONO_DEVICE Octet octet(u64 offset) const { return {__ldg(static_cast<const uint2*>(memory) + offset / 8)}; }
  UNISONO_DEVICE u64 offset(u64 dense, u64, int) const { return dense; }
};

}  // namespace unisono
