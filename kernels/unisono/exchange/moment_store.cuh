// Moments of what a kernel stores, for a normalisation that a later launch applies, such as one over a concatenation
// that takes this store in. Every warpgroup writes those of its rows to its own slot in
// ExchangeParams::slots, (images, slots, units): one entry for Config::kMoments neighbouring channels, by an ordinary
// store, since nobody waits within the launch. All entries are written in every launch, those of slots without a row
// with a count of 0.
//
// They are moments of the stored values, that is after rounding: a normalisation reads just these. Of the values
// before, the mean would be off by a rounding, and a group of channels that is constant would not become zero.
#pragma once
#include "unisono/exchange/moments.cuh"
#include "unisono/ptx/global.cuh"

namespace unisono {

UNISONO_DEVICE void put_moments(Entry* entry, const Moments& m) {
  delay_point();
  *reinterpret_cast<uint4*>(entry) = {__float_as_uint(m.mean), __float_as_uint(m.m2), __float_as_uint(m.count), 0u};
}

}  // namespace unisono
