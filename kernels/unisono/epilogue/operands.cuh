// Scalars, columns and statistics in memory, of any dtype that the host stores them in. [m,n] operands:
// epilogue/visitor.cuh.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

template <class Element>
struct Memory {  // Bf16, F16: 16 bits an element
  using Value = float;
  static UNISONO_DEVICE float load(const void* memory, int i) {
    return Element::unpack(__ldg(static_cast<const u16*>(memory) + i)).x;
  }
  static UNISONO_DEVICE void store(void* memory, int i, float x) {
    static_cast<u16*>(memory)[i] = u16(Element::pack(x, 0.f));
  }
};
template <>
struct Memory<float> {
  using Value = float;
  static UNISONO_DEVICE float load(const void* memory, int i) { return __ldg(static_cast<const float*>(memory) + i); }
  static UNISONO_DEVICE void store(void* memory, int i, float x) { static_cast<float*>(memory)[i] = x; }
};
template <>
struct Memory<int> {
  using Value = int;
  static UNISONO_DEVICE int load(const void* memory, int i) { return __ldg(static_cast<const int*>(memory) + i); }
  static UNISONO_DEVICE void store(void* memory, int i, int x) { static_cast<int*>(memory)[i] = x; }
};
template <>
struct Memory<bool> {  // a byte, 0 or 1
  using Value = bool;
  static UNISONO_DEVICE bool load(const void* memory, int i) { return __ldg(static_cast<const u8*>(memory) + i) != 0; }
  static UNISONO_DEVICE void store(void* memory, int i, bool x) { static_cast<u8*>(memory)[i] = x; }
};

template <class Element>
UNISONO_DEVICE typename Memory<Element>::Value load(const void* memory, int i) {
  return Memory<Element>::load(memory, i);
}
template <class Element>
UNISONO_DEVICE void store(void* memory, int i, typename Memory<Element>::Value x) {
  Memory<Element>::store(memory, i, x);
}

// An element of a result [m,n].
template <class Element>
UNISONO_DEVICE void store_element(void* memory, u64 offset, float x) {
  static_cast<u16*>(memory)[offset] = u16(Element::pack(x, 0.f));
}
template <>
UNISONO_DEVICE void store_element<float>(void* memory, u64 offset, float x) {
  static_cast<float*>(memory)[offset] = x;
}
UNISONO_DEVICE void store_int(void* memory, u64 offset, int x) { static_cast<int*>(memory)[offset] = x; }
UNISONO_DEVICE void store_bool(void* memory, u64 offset, bool x) { static_cast<u8*>(memory)[offset] = x; }

// Two neighbours, the first at an even offset.
template <class Element>
UNISONO_DEVICE void store_pair(void* memory, u64 offset, float x, float y) {
  static_cast<u32*>(memory)[offset / 2] = Element::pack(x, y);
}
template <>
UNISONO_DEVICE void store_pair<float>(void* memory, u64 offset, float x, float y) {
  static_cast<float2*>(memory)[offset / 2] = {x, y};
}
UNISONO_DEVICE void store_pair_of_ints(void* memory, u64 offset, int x, int y) {
  static_cast<int*>(memory)[offset] = x, static_cast<int*>(memory)[offset + 1] = y;
}
UNISONO_DEVICE void store_pair_of_bools(void* memory, u64 offset, bool x, bool y) {
  static_cast<u16*>(memory)[offset / 2] = u16(x | y << 8);
}

// A column's value travels through shared memory as a float; integers by their bits, bools as 0 and 1.
UNISONO_DEVICE float as_column(float x) { return x; }
UNISONO_DEVICE float as_column(int x) { return __int_as_float(x); }
UNISONO_DEVICE float as_column(bool x) { return x ? 1.f : 0.f; }

}  // namespace unisono
