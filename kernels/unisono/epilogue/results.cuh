// Results [m,n] that are stored from registers, by a second pass eight neighbouring channels of a row a lane, after a
// normalisation over rows two (epilogue/row_results.cuh), and what a visitor says of them (epilogue/visitor.cuh).
#pragma once
#include "unisono/epilogue/visitor.cuh"
#include "unisono/ptx/global.cuh"

namespace unisono {

// Visitor::kResults and kDirect; a visitor of one or two results of 16 bits has neither.
template <class Visitor, class = void>
struct ResultsOf {
  static constexpr int kResults = 0, kDirect = 0;
};
template <class Visitor>
struct ResultsOf<Visitor, typename Said<Visitor::kResults>::Type> {
  static constexpr int kResults = Visitor::kResults, kDirect = Visitor::kDirect;
};

// Whether `before` reads values of rows: Visitor::kRowsBefore.
template <class Visitor, class = void>
struct ReadsRowsBefore {
  static constexpr bool kValue = false;
};
template <class Visitor>
struct ReadsRowsBefore<Visitor, typename Said<Visitor::kRowsBefore>::Type> {
  static constexpr bool kValue = Visitor::kRowsBefore;
};

// Where an octet of a row lies. With kLanes > 1 the lanes of a row come in pairs: the odd lane has the channels after
// the even one's, and both know which of the two octets exist.
struct OctetPlace {
  u64 offset;  // of this lane's first element
  bool odd, even_exists, odd_exists;
  UNISONO_DEVICE bool exists() const { return odd ? odd_exists : even_exists; }
};

// kHint: L2 need not keep it.
template <bool kHint>
struct ResultStore {
  static UNISONO_DEVICE void put(void* address, uint4 value) { store_evict_first(address, value); }
};
template <>
struct ResultStore<false> {
  static UNISONO_DEVICE void put(void* address, uint4 value) { *static_cast<uint4*>(address) = value; }
};
UNISONO_DEVICE void store_octet(u16* to, const u32 (&words)[4]) {
  *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
}
UNISONO_DEVICE uint4 bits_of(const float (&x)[4]) {
  return {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])};
}

template <class Element>
struct ResultTarget {  // 16 bits an element
  void* memory;
  UNISONO_DEVICE void put(u64 offset, float x, float y) const {
    *reinterpret_cast<u32*>(static_cast<u16*>(memory) + offset) = Element::pack(x, y);
  }
  struct Octet {
    u32 words[4];
    UNISONO_DEVICE void put(int w, float x, float y) { words[w] = Element::pack(x, y); }
  };
  template <int kLanes, bool kHint>
  UNISONO_DEVICE void store(const Octet& x, const OctetPlace& at) const {
    if (at.exists())
      ResultStore<kHint>::put(static_cast<u16*>(memory) + at.offset, {x.words[0], x.words[1], x.words[2], x.words[3]});
  }
};
template <>
struct ResultTarget<float> {
  void* memory;
  UNISONO_DEVICE void put(u64 offset, float x, float y) const {
    *reinterpret_cast<float2*>(static_cast<float*>(memory) + offset) = {x, y};
  }
  struct Octet {
    float values[8];
    UNISONO_DEVICE void put(int w, float x, float y) { values[2 * w] = x, values[2 * w + 1] = y; }
  };
  // A pair of lanes writes the even one's octet together, then the odd one's, so that each instruction fills whole
  // sectors of 32 bytes.
  template <int kLanes, bool kHint>
  UNISONO_DEVICE void store(const Octet& x, const OctetPlace& at) const {
    float* const own = static_cast<float*>(memory) + at.offset;
    float first[4], second[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      first[j] = x.values[j], second[j] = x.values[4 + j];
      if constexpr (kLanes > 1) {
        const float other = __shfl_xor_sync(~0u, at.odd ? first[j] : second[j], 1);
        (at.odd ? first[j] : second[j]) = other;
      }
    }
    float* const even = kLanes > 1 ? own - (at.odd ? 4 : 0) : own;
    if (kLanes > 1 ? at.even_exists : at.exists()) ResultStore<kHint>::put(even, bits_of(first));
    if (kLanes > 1 ? at.odd_exists : at.exists()) ResultStore<kHint>::put(even + (kLanes > 1 ? 8 : 4), bits_of(second));
  }
};

// An octet of each of the visitor's results [i, kDirect).
template <class Visitor, int i, bool kAny>
struct ResultOctets {
  using Target = decltype(Visitor::template direct<i>(*static_cast<const typename Visitor::Params*>(nullptr), nullptr));
  typename Target::Octet own;
  ResultOctets<Visitor, i + 1, (i + 1 < ResultsOf<Visitor>::kDirect)> rest;
  UNISONO_DEVICE void put(int w, const float* x, const float* y) { own.put(w, *x, *y), rest.put(w, x + 1, y + 1); }
  template <int kLanes, bool kHint>
  UNISONO_DEVICE void store(const typename Visitor::Params& p, void* main, const OctetPlace& at) const {
    Visitor::template direct<i>(p, main).template store<kLanes, kHint>(own, at);
    rest.template store<kLanes, kHint>(p, main, at);
  }
};
template <class Visitor, int i>
struct ResultOctets<Visitor, i, false> {
  UNISONO_DEVICE void put(int, const float*, const float*) {}
  template <int kLanes, bool kHint>
  UNISONO_DEVICE void store(const typename Visitor::Params&, void*, const OctetPlace&) const {}
};

// Values of a row, if the visitor has them.
template <class Visitor, bool kAny>
struct RowValues {
  using Type = typename Visitor::Row;
  static UNISONO_DEVICE Type of(const typename Visitor::Params& p, const typename Visitor::Uniform& u,
                                const Where& at) {
    return Visitor::row(p, u, at);
  }
};
template <class Visitor>
struct RowValues<Visitor, false> {
  struct Type {};
  static UNISONO_DEVICE Type of(const typename Visitor::Params&, const typename Visitor::Uniform&, const Where&) {
    return {};
  }
};

// A visitor's functions before a normalisation, which take a row's values or do not.
template <class Visitor, bool kOfRows>
struct AheadOfRows {
  using Row = typename Visitor::Row;
  using Uniform = typename Visitor::Uniform;
  static UNISONO_DEVICE float before(float acc, const float* column, const float* tensor, const Row& row,
                                     const Uniform& u) {
    return Visitor::before(acc, column, tensor, row, u);
  }
  static UNISONO_DEVICE float side(float acc, const float* column, const float* tensor, const Row& row,
                                   const Uniform& u) {
    return Visitor::side(acc, column, tensor, row, u);
  }
};
template <class Visitor>
struct AheadOfRows<Visitor, false> {
  using Row = typename RowValues<Visitor, false>::Type;
  using Uniform = typename Visitor::Uniform;
  static UNISONO_DEVICE float before(float acc, const float* column, const float* tensor, const Row&,
                                     const Uniform& u) {
    return Visitor::before(acc, column, tensor, u);
  }
  static UNISONO_DEVICE float side(float acc, const float* column, const float* tensor, const Row&, const Uniform& u) {
    return Visitor::side(acc, column, tensor, u);
  }
};

}  // namespace unisono
