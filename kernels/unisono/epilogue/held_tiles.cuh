// What a configuration says of tiles that wait for their image's statistics, and streamed the elements that they wait
// as. Of all this a configuration names only what differs from the rule.
#pragma once
#include "unisono/ptx/global.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono {

// Config::Held: Bf16, F16 or float; else they wait as elements of the main store.
template <class Config, class Visitor, class = void>
struct HeldIn {
  using Type = typename Visitor::Output;
};
template <class Config, class Visitor>
struct HeldIn<Config, Visitor, typename Named<typename Config::Held>::Type> {
  using Type = typename Config::Held;
};

// Config::kByChannels: all tiles of the same channels of an image are neighbours in the order (tile/tile_scheduler.cuh)
template <class Config, class = void>
struct ByChannels {
  static constexpr bool kValue = false;
};
template <class Config>
struct ByChannels<Config, typename Said<Config::kByChannels>::Type> {
  static constexpr bool kValue = Config::kByChannels;
};

// Config::kDeferred: over rows whose tiles meet, a tile waits in registers while the next one is multiplied.
template <class Config, class = void>
struct DeferredRows {
  static constexpr bool kValue = false;
};
template <class Config>
struct DeferredRows<Config, typename Said<Config::kDeferred>::Type> {
  static constexpr bool kValue = Config::kDeferred;
};

// Config::kCut: tiles and groups of channels cut one another (exchange/pieces.cuh).
template <class Config, class = void>
struct CutGroups {
  static constexpr bool kValue = false;
};
template <class Config>
struct CutGroups<Config, typename Said<Config::kCut>::Type> {
  static constexpr bool kValue = Config::kCut;
};

// Config::kHints: L2 keeps spilled tiles rather than activations and results.
template <class Config, class = void>
struct Hints {
  static constexpr bool kValue = false;
};
template <class Config>
struct Hints<Config, typename Said<Config::kHints>::Type> {
  static constexpr bool kValue = Config::kHints;
};

// What L2 is told of a copy or a store, or that it is told nothing. call(): for what takes a policy of L2 as its last
// argument, or none.
template <bool kHints>
struct CacheHints {
  template <class Copy>
  static UNISONO_DEVICE void call(u64 policy, const Copy& copy) {
    copy(policy);
  }
  static UNISONO_DEVICE void store(void* to, uint4 value) { store_evict_first(to, value); }
};
template <>
struct CacheHints<false> {
  template <class Copy>
  static UNISONO_DEVICE void call(u64, const Copy& copy) {
    copy();
  }
  static UNISONO_DEVICE void store(void* to, uint4 value) { store_sixteen(to, value); }
};

// A pair of neighbours in the planes of 16 bits that tiles wait in. Of float: the upper halves, then the lower ones.
template <class Element>
struct HeldPair {
  static constexpr int kPlanes = 1;
  static UNISONO_DEVICE void split(float x, float y, u32 (&planes)[1]) { planes[0] = Element::pack(x, y); }
  static UNISONO_DEVICE float2 join(const u32 (&planes)[1]) { return Element::unpack(planes[0]); }
};
template <>
struct HeldPair<float> {
  static constexpr int kPlanes = 2;
  static UNISONO_DEVICE void split(float x, float y, u32 (&planes)[2]) {
    const u32 first = __float_as_uint(x), second = __float_as_uint(y);
    planes[0] = __byte_perm(first, second, 0x7632), planes[1] = __byte_perm(first, second, 0x5410);
  }
  static UNISONO_DEVICE float2 join(const u32 (&planes)[2]) {
    return {__uint_as_float(__byte_perm(planes[1], planes[0], 0x5410)),
            __uint_as_float(__byte_perm(planes[1], planes[0], 0x7632))};
  }
};

}  // namespace unisono
