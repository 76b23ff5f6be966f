// A main loop without matrix instructions, which would multiply mostly zeros for groups of few channels (depthwise
// convolutions). Every thread computes the elements of its fragment one by one, from memory. No stages, no producer.
#pragma once
#include "unisono/load/sm90_gather.cuh"

namespace unisono {

template <class Config>
struct Direct {
  using Element = typename Config::Element;
  using Source = Gather<Config>;
  static constexpr int kRows = 2 * Config::kWarpgroupRows / 64,
                       kColumns = Config::kTileN / 4;  // of a thread's fragment

  using Word = typename Element::Word;
  static UNISONO_DEVICE float load(const Word* from) { return widened(Element(), __ldg(from)); }

  // acc = this warpgroup's rows of the tile of `image` from `first_channel` on.
  template <int kBlocks, int kCount, class Rows>
  static UNISONO_DEVICE void multiply(float (&acc)[kBlocks][kCount], const Source& source, const Rows& rows, int image,
                                      int first_channel, int thread) {
    static_assert(!Config::kSwap && kRows == 2 * kBlocks && kColumns * 2 == kCount,
                  "pixels are the rows of a fragment");
    const int warp = thread / 32, lane = thread & 31;
    const Word* const filters = static_cast<const Word*>(source.filter.memory);
    const Word* pixels[kRows];
    GatheredRow row[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      row[i] = source.row_at(rows, 64 * (i / 2) + 16 * warp + lane / 4 + 8 * (i % 2), image);
      pixels[i] = static_cast<const Word*>(source.image.memory) + row[i].base;
    }
    int channel[kColumns], filter[kColumns];  // in elements: where the inputs and the filters of each column begin
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int n = smaller(first_channel + 8 * (j / 2) + 2 * (lane & 3) + j % 2, source.geometry.channels - 1),
                group = n / source.image.group_filters;
      channel[j] = group * source.image.channels * source.image.step_c;
      filter[j] = n * source.filter.step_filter + group * source.filter.step_group;
    }
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int i = 0; i < kCount; ++i) acc[b][i] = 0.f;
    const int taps = source.image.depth / source.image.channels;
    for (int tap = 0; tap < taps; ++tap) {
      const Tap place = source.tap_of(tap * source.image.channels);
      int at[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) at[i] = source.element_of(row[i], place);
      for (int c = 0; c < source.image.channels; ++c) {
        const int from = c * source.image.step_c, weights = tap * source.filter.step_tap + c * source.filter.step_c;
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          const float w = load(filters + filter[j] + weights);
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            const float x = at[i] < 0 ? 0.f : load(pixels[i] + at[i] + channel[j] + from);
            float& d = acc[i / 2][4 * (j / 2) + 2 * (i % 2) + j % 2];
            d = fmaf(x, w, d);
          }
        }
      }
    }
  }
};

}  // namespace unisono
