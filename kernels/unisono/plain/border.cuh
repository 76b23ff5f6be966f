// How tensors of the caller enter the arena of a network and leave it.
#pragma once
#include "unisono/plain/border_rows.cuh"
#include "unisono/plain/border_tile.cuh"

namespace unisono::plain {

// Whether octets of channels lie together outside too, as 16 or 32 aligned bytes.
UNISONO_DEVICE bool has_octets(const BorderParams& p, const CallerTensor& t) {
  const i64 all = p.channels | t.strides[0] | t.strides[1] | t.strides[2] |
                  i64(reinterpret_cast<size_t>(t.memory) >> (t.type == ElementCode::f32 ? 2 : 1));
  return all % 8 == 0 && t.strides[3] == 1;
}
// Then calls visit(row, channel, offset or kNowhere) for each octet.
template <class Visit>
UNISONO_DEVICE void for_octets(const BorderParams& p, const CallerTensor& t, const Visit& visit) {
  const u32 octets = p.channels * p.taps / 8;
  const u64 count = u64(p.images) * p.height * p.width * octets;
#pragma unroll 2
  for (u64 i = first_index(); i < count; i += index_step()) {
    const u32 row = count >> 32 ? u32(i / octets) : u32(i) / octets, channel = 8 * u32(i - u64(row) * octets);
    const BorderPixel pixel(p, t, row);
    const BorderChannel c(p, t, channel);
    const int w = pixel.column + c.column;
    visit(row, channel, u32(w) < p.columns ? pixel.offset + w * t.strides[2] + c.offset : kNowhere);
  }
}

// Packed outside, but not by octets of channels (seventeen heatmaps, say): eight neighbours there or here a thread,
// which reads them one by one, mostly from L1. Channels beyond the last are written as zero.
template <class Element>
UNISONO_DEVICE void enter_packed(const BorderParams& p, const CallerTensor& t) {
  const u32 octets = (p.channels - 1) / 8 + 1, rows = p.images * p.height * p.width;
#pragma unroll 2
  for (u64 i = first_index(); i < u64(rows) * octets; i += index_step()) {
    const u32 row = i >> 32 ? u32(i / octets) : u32(i) / octets, channel = 8 * u32(i - u64(row) * octets);
    Octet x;
#pragma unroll
    for (u32 k = 0; k < 8; ++k)
      x.of[k] = channel + k < p.channels ? load_caller(t, i64(row) * p.channels + channel + k) : 0.f;
    store_octet<Element>(p.arena, row, channel, x);
  }
}
template <class Element>
UNISONO_DEVICE void leave_packed(const BorderParams& p, const CallerTensor& t) {
  const u64 count = u64(p.images) * p.height * p.width * p.channels;
#pragma unroll 2
  for (u64 i = 8 * first_index(); i < count; i += 8 * index_step()) {
    u32 row = i >> 32 ? u32(i / p.channels) : u32(i) / p.channels, channel = u32(i - u64(row) * p.channels);
    const u16* from = static_cast<const u16*>(p.arena.memory) + row * p.arena.pitch + channel;
    const u32 here = count - i < 8 ? u32(count - i) : 8;
    Octet x;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
      x.of[k] = k < here ? Element::unpack(__ldg(from)).x : 0.f;
      ++from;
      if (++channel == p.channels) channel = 0, from += p.arena.pitch - p.channels;
    }
    if (here == 8)
      store_caller_octet(t, i64(i), x);
    else
      for (u32 k = 0; k < here; ++k) store_caller(t, i64(i + k), x.of[k]);
  }
}

// Channels beyond the last are written as zero.
template <class Element>
UNISONO_DEVICE void enter(const BorderParams& p) {
  const CallerTensor t = *p.caller;
  if (has_octets(p, t))
    return for_octets(p, t, [&](u32 row, u32 channel, i64 offset) {
      store_octet<Element>(p.arena, row, channel, offset == kNowhere ? Octet{} : load_caller_octet(t, offset));
    });
  if (is_packed(p, t)) return enter_packed<Element>(p, t);
  __shared__ float elements[kBorderFloats];
  if (const BorderRows rows(p, t); rows.serve()) return rows.enter<Element>(reinterpret_cast<u16*>(elements));
  transpose_border<true>(
      p, t, elements, [&](i64 offset, float& element) { element = offset == kNowhere ? 0.f : load_caller(t, offset); },
      [&](u32 row, u32 channel, u32 pixel, u32 c, const BorderTile& tile) {
        Octet x;
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x.of[k] = channel + c + k < p.channels * p.taps ? tile.at(c + k, pixel) : 0.f;
        store_octet<Element>(p.arena, row, channel + c, x);
      });
}
template <class Element>
UNISONO_DEVICE void leave(const BorderParams& p) {
  const CallerTensor t = *p.caller;
  if (has_octets(p, t))
    return for_octets(p, t, [&](u32 row, u32 channel, i64 offset) {
      store_caller_octet(t, offset, load_octet<Element>(p.arena, row, channel));
    });
  if (is_packed(p, t)) return leave_packed<Element>(p, t);
  __shared__ float elements[kBorderFloats];
  transpose_border<false>(
      p, t, elements, [&](i64 offset, float& element) { store_caller(t, offset, element); },
      [&](u32 row, u32 channel, u32 pixel, u32 c, const BorderTile& tile) {
        const Octet x = load_octet<Element>(p.arena, row, channel + c);
#pragma unroll
        for (u32 k = 0; k < 8; ++k) tile.at(c + k, pixel) = x.of[k];
      });
}

}  // namespace unisono::plain
