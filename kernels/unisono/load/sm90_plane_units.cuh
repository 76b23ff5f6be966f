// Units of planes that a launch converts (load/sm90_from_planes.cuh), each by one warp: 64 pixels by 64 channels of an
// image, from NCHW to NHWC, or 128 channels of a filter, from KCRS to KRSC. A unit is copied into shared memory, its
// slot, while others are under way, and transposed from there. So what is in flight takes no registers: with 4.8 TB/s
// and a microsecond for a trip to memory 36 KB an SM are.
#pragma once
#include "unisono/params/params.cuh"
#include "unisono/ptx/global.cuh"
#include "unisono/ptx/shared.cuh"

namespace unisono {

struct PlaneConversion {
  static constexpr int kPixels = kConvertedPixels, kChannels = kConvertedChannels;  // of an image's unit
  static constexpr int kLane = 8;                                                   // pixels, and lanes across channels
  static constexpr int kSlotBytes = kConvertedSlotBytes;

  const PlanesToConvert& p;
  const int lane;

  // Copies of 16 bytes are possible: of an image, whose planes begin at multiples of them; of channels of filters, at
  // most that many at once.
  UNISONO_DEVICE bool copies_images() const { return p.pixels % 8 == 0; }
  UNISONO_DEVICE int copied_channels() const {
    return p.channels % 8 > 0 ? 0 : smaller(kConvertedFilterChannels, kSlotBytes / (128 * p.taps) * 64);
  }

  struct ImageUnit {
    int image, pixel, channel;  // the first ones
  };
  UNISONO_DEVICE ImageUnit image_unit(int unit) const {
    const int index = unit - p.filter_units, row = divided(index, p.by_blocks), image = divided(row, p.by_bands);
    return {image, (row - image * p.bands) * kPixels, (index - row * p.blocks) * kChannels};
  }
  // Channels [first, end) of a filter.
  struct FilterUnit {
    int filter, first, end;
  };
  UNISONO_DEVICE FilterUnit filter_unit(int unit) const {
    const int filter = divided(unit, p.by_filter_pieces);
    const int first = (unit - filter * p.filter_pieces) * kConvertedFilterChannels;
    return {filter, first, smaller(first + kConvertedFilterChannels, p.channels)};
  }

  // Begins to copy a unit into a slot that nobody reads any more. A group of copies of each lane is then under way, of
  // none where finish() reads memory itself.
  UNISONO_DEVICE void begin(int unit, u32 slot) const {
    if (unit >= p.filter_units) {
      if (copies_images()) copy_image(image_unit(unit), slot);
    } else {
      const FilterUnit u = filter_unit(unit);
      if (u.end - u.first <= copied_channels()) copy_channels(channels_of(u.filter, u.first), u.end - u.first, slot);
    }
    copy_async_commit();
  }
  // Transposes a unit, once the copies of its lanes have come. By the whole warp, which has read the slot then.
  template <int kUnroll>
  UNISONO_DEVICE void finish(int unit, u8* slot) const {
    __syncwarp();
    if (unit < p.filter_units)
      store_filter(filter_unit(unit), slot);
    else if (copies_images())
      store_image<kUnroll>(image_unit(unit), shared_address(slot));
    else
      transpose_elements(image_unit(unit));
    __syncwarp();
  }

  // A row of a slot is a channel, 128 bytes, with its eights of pixels in another order: those that a matrix of
  // load_matrices_transposed() has are in different banks.
  static UNISONO_DEVICE constexpr int turned(int channel) { return (channel & 1) | (channel >> 3 & 3) << 1; }

  UNISONO_DEVICE void copy_image(const ImageUnit& u, u32 slot) const {
    const int octet = lane % 8, pixel = u.pixel + 8 * octet, channel = u.channel + lane / 8;
    const u16* from = static_cast<const u16*>(p.image) + (u64(u.image) * p.channels + channel) * u32(p.pixels) + pixel;
#pragma unroll 8
    for (int c = 0; c < kChannels; c += 4, from += 4 * u64(u32(p.pixels))) {
      const bool exists = pixel < p.pixels && channel + c < p.channels;
      const int row = lane / 8 + c;
      copy_async(slot + row * 128 + ((octet ^ turned(row)) << 4), exists ? from : static_cast<const u16*>(p.image),
                 exists ? 16 : 0);
    }
  }

  // Matrix m of four has channels 8 q + 2 m + {0, 1} of 32, so that a lane has eight neighbours of one pixel.
  template <int kUnroll>
  UNISONO_DEVICE void store_image(const ImageUnit& u, u32 slot) const {
    const int row = 8 * (lane % 8 / 2) + 2 * (lane / 8) + lane % 2;
    const int pixel = u.pixel + lane / 4, channel = u.channel + 8 * (lane % 4);
    u16* to = static_cast<u16*>(p.image_to) + (u64(u.image) * p.pixels + pixel) * u32(p.padded) + channel;
    slot += row * 128;
#pragma unroll kUnroll
    for (int octet = 0; octet < 8; ++octet, to += 8 * u64(u32(p.padded))) {
      u32 eight[2][4];
#pragma unroll
      for (int h = 0; h < 2; ++h)
        load_matrices_transposed(slot + h * 32 * 128 + ((octet ^ turned(row)) << 4), eight[h]);
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if (pixel + 8 * octet < p.pixels && channel + 32 * h < p.padded)
          store_sixteen(to + 32 * h, {eight[h][0], eight[h][1], eight[h][2], eight[h][3]});
    }
  }

  // Pixels that no copy of 16 bytes begins at: a lane has eight of them, of a channel two at a time.
  UNISONO_DEVICE void transpose_elements(const ImageUnit& u) const {
#pragma unroll 1
    for (int i = 0; i < kPixels; i += 32)
#pragma unroll 1
      for (int c = 0; c < kChannels; c += 2 * kLane)
        transpose_pairs(u.image, u.pixel + i + lane / kLane * kLane, u.channel + c + lane % kLane * 2);
  }
  UNISONO_DEVICE void transpose_pairs(int image, int pixel, int channel) const {
    const u16* from = static_cast<const u16*>(p.image) + (u64(image) * p.channels + channel) * u32(p.pixels) + pixel;
    u16* to = static_cast<u16*>(p.image_to) + (u64(image) * p.pixels + pixel) * u32(p.padded) + channel;
    u32 pairs[kLane];
#pragma unroll
    for (int i = 0; i < kLane; ++i) {
      const bool exists = pixel + i < p.pixels;
      const u32 low = exists && channel < p.channels ? from[i] : 0,
                high = exists && channel + 1 < p.channels ? from[i + p.pixels] : 0;
      pairs[i] = low | high << 16;
    }
#pragma unroll
    for (int i = 0; i < kLane; ++i)
      if (pixel + i < p.pixels && channel < p.padded) *reinterpret_cast<u32*>(to + u64(i) * u32(p.padded)) = pairs[i];
  }

  UNISONO_DEVICE const u16* channels_of(int filter, int first) const {
    return static_cast<const u16*>(p.filter) + u64(filter) * u32(p.channels * p.taps) + first * p.taps;
  }

  UNISONO_DEVICE void copy_channels(const u16* from, int count, u32 slot) const {
    const int bytes = 2 * count * p.taps;
    const u8* const first = reinterpret_cast<const u8*>(from);
#pragma unroll 4
    for (int i = 16 * lane; i < bytes; i += 512) copy_async(slot + i, first + i, 16);
  }

  // Two channels a lane, whose taps follow one another: (channels, kTaps) become (kTaps, channels).
  template <int kTaps>
  UNISONO_DEVICE void store_pairs(const u32* from, u16* to, int count) const {
#pragma unroll 1
    for (int channel = 2 * lane; channel < count; channel += 64) {
      u32 words[kTaps];
#pragma unroll
      for (int i = 0; i < kTaps; ++i) words[i] = from[channel / 2 * kTaps + i];
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap)
        *reinterpret_cast<u32*>(to + tap * p.padded + channel) =
            __byte_perm(words[tap / 2], words[(kTaps + tap) / 2],
                        (tap % 2 == 0 ? 0x10 : 0x32) | ((kTaps + tap) % 2 == 0 ? 0x5400 : 0x7600));
    }
  }
  // The same of any number of taps and of channels, which are rounded up to a multiple of 8: zeros after the last.
  UNISONO_DEVICE void store_channels(const u16* from, u16* to, int count) const {
    const int padded = (count + 7) / 8 * 8;
    for (int channel = 2 * lane; channel < padded; channel += 64)
      for (int tap = 0; tap < p.taps; ++tap) {
        const u32 low = channel < count ? from[channel * p.taps + tap] : 0,
                  high = channel + 1 < count ? from[(channel + 1) * p.taps + tap] : 0;
        *reinterpret_cast<u32*>(to + tap * p.padded + channel) = low | high << 16;
      }
  }

  UNISONO_DEVICE void store_filter(const FilterUnit& u, u8* slot) const {
    u16* const to = static_cast<u16*>(p.filter_to) + u64(u.filter) * u32(p.taps * p.padded) + u.first;
    const int count = u.end - u.first, copied = copied_channels();
    if (count <= copied && p.taps == 9)
      store_pairs<9>(reinterpret_cast<const u32*>(slot), to, count);
    else if (count <= copied)
      store_channels(reinterpret_cast<const u16*>(slot), to, count);
    else if (copied == 0)
      store_channels(channels_of(u.filter, u.first), to, count);
    else  // some at a time
      for (int c = 0; c < count; c += copied) {
        copy_channels(channels_of(u.filter, u.first + c), smaller(copied, count - c), shared_address(slot));
        copy_async_commit();
        copy_async_wait<0>();
        __syncwarp();
        store_channels(reinterpret_cast<const u16*>(slot), to + c, smaller(copied, count - c));
        __syncwarp();
      }
  }

  // Units of the first `ahead`, the last of them first: those that tiles read first are then what L2 has when tiles
  // begin. By `warps` warps of each of `ctas` CTAs, each with kSlots slots; in a round, a CTA's are neighbours.
  template <int kSlots>
  UNISONO_DEVICE void convert_ahead(int warp, int warps, u8* slots) const {
    const int ctas = gridDim.x, cta = blockIdx.x, rounds = divide_up(p.ahead, ctas * warps);
    const auto begin_round = [&](int i) {
      if (i < rounds && unit_of(i, warp, warps, cta, ctas) >= 0)
        begin(unit_of(i, warp, warps, cta, ctas), shared_address(slots) + i % kSlots * kSlotBytes);
      else
        copy_async_commit();
    };
#pragma unroll 1
    for (int i = 0; i < kSlots; ++i) begin_round(i);
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
      copy_async_wait<kSlots - 1>();
      if (const int unit = unit_of(i, warp, warps, cta, ctas); unit >= 0)
        finish<4>(unit, slots + i % kSlots * kSlotBytes);
      begin_round(i + kSlots);
    }
  }
  // Negative: there is none. What is left for the last round is spread over all CTAs.
  UNISONO_DEVICE int unit_of(int round, int warp, int warps, int cta, int ctas) const {
    const bool whole = (round + 1) * ctas * warps <= p.ahead;
    const int place = round * ctas * warps + (whole ? cta * warps + warp : warp * ctas + cta);
    return p.ahead - 1 - place;
  }
};

}  // namespace unisono
