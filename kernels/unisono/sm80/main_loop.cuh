// A tile's sums: both operands come by copies into a ring of kStages stages in shared memory, the fragments of a step
// by ldmatrix, and mma.sync multiplies them. Of a dual product the filters of both lie one after the other. A warp has
// 16 of each 64 rows of its warpgroup, and all channels, so that fragments of filters serve kBlocks of them.
#pragma once
#include "unisono/mma/fragments.cuh"
#include "unisono/sm80/loads.cuh"

namespace unisono {

template <class Config>
struct Sm80MainLoop {
  using Element = typename Config::Element;
  using Fragment = typename Config::Fragment;
  using Accumulators = typename Fragment::Accumulators;
  static constexpr int kElement = sizeof(typename Element::Word), kStep = Config::kTileK * kElement;
  static constexpr int kThreads = 128 * Config::kWarpgroups, kM = Config::kWarpgroups * Fragment::kRows,
                       kN = Fragment::kChannels, kBlocks = Fragment::kBlocks, kSteps = kStep / 32;
  using A = OperandTile<kM, kStep, kElement, Config::kColumnsA>;
  using B = OperandTile<kN, kStep, kElement, Config::kColumnsB>;
  static constexpr int kProducts = Fragment::kProducts, kStage = A::Tile::kSize + kProducts * B::Tile::kSize;

  template <class Of, bool kPixels, class Taps>  // Taps: sm80/taps.cuh
  struct Loaders {
    using Image = MatrixOfRows<A, kElement, Config::kCopyA, kThreads>;
    using Filter = Filters<B, kElement, Config::kCopyB, kThreads>;
  };
  template <class Of>
  struct Loaders<Of, true, FilterTaps> {
    using Image = PixelLoader<typename Config::Sight, A, kElement, Config::kCopyA, kThreads>;
    using Filter = Filters<B, kElement, Config::kCopyB, kThreads>;
  };
  template <class Of>
  struct Loaders<Of, true, PhaseTaps> {
    using Image = PixelLoader<typename Config::Sight, A, kElement, Config::kCopyA, kThreads>;
    using Filter = PhaseFilters<B, kElement, Config::kCopyB, kThreads>;
  };
  using Taps = typename Config::Taps;
  using Image = typename Loaders<Element, Config::kPixels, Taps>::Image;
  using Filter = typename Loaders<Element, Config::kPixels, Taps>::Filter;
  static constexpr int kTableBytes = kM * Image::kRowBytes;

  Image image;
  Filter filters[kProducts];

  // From the k-th element of k on. `table`: kTableBytes.
  UNISONO_DEVICE void open(const Sm80ConvParams& f, const Tile& tile, const Taps& taps, int k, u8* table) {
    const int n = tile.tile_n * kN;
    image.open(f, tile, Config::Rows::of(f.tile.geometry, tile, kM, 0), n, taps, k, table);
#pragma unroll
    for (int i = 0; i < kProducts; ++i) filters[i].open(f, f.filters[i], tile.image, n, taps, k);
  }
  template <int kPart, int kParts>
  UNISONO_DEVICE void load(u8* stage) {
    image.template load<kPart, kParts>(stage);
#pragma unroll
    for (int i = 0; i < kProducts; ++i)
      filters[i].template load<kPart, kParts>(stage + A::Tile::kSize + i * B::Tile::kSize);
  }
  UNISONO_DEVICE void advance() {
    image.advance();
#pragma unroll
    for (int i = 0; i < kProducts; ++i) filters[i].advance();
  }

  // `others` are loaded between the products of a step.
  template <class F>
  static UNISONO_DEVICE void multiply(Accumulators& acc, u32 stage, const F& others) {
    constexpr int kEach = kN / 16, kWide = kProducts * kEach;
    const int first = Fragment::kRows * (int(threadIdx.x) / 128) + threadIdx.x / 32 % 4 * 16;
    u32 left[2][kBlocks][4], right[2][4];
    auto take_left = [&](int k) {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) A::fragment(stage, first + 64 * b, k, left[k % 2][b]);
    };
    auto take_right = [&](int i) {
      const int j = i % kWide;
      B::fragment(stage + A::Tile::kSize + j / kEach * B::Tile::kSize, j % kEach * 16, i / kWide, right[i % 2]);
    };
    take_left(0), take_right(0);
    for_indices<0, kSteps>([&](auto step) {
      constexpr int k = decltype(step)::kValue;
      others(step);
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        const int i = k * kWide + j;
        if (j == 0 && k + 1 < kSteps) take_left(k + 1);
        if (i + 1 < kSteps * kWide) take_right(i + 1);
        const u32 low[2] = {right[i % 2][0], right[i % 2][2]}, high[2] = {right[i % 2][1], right[i % 2][3]};
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          multiply_fragments<Element>(quadruple(acc[b], 2 * j), left[k % 2][b], low);
          multiply_fragments<Element>(quadruple(acc[b], 2 * j + 1), left[k % 2][b], high);
        }
      }
    });
  }
  static UNISONO_DEVICE float (&quadruple(float (&sums)[kProducts * kN / 2], int chunk))[4] {
    return *reinterpret_cast<float(*)[4]>(sums + 4 * chunk);
  }

  // Ends when the stages may be overwritten by those that called it; others still read the last.
  UNISONO_DEVICE void run(Accumulators& acc, u8* stages, int steps) {
    constexpr int kAhead = Config::kStages - 1;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int i = 0; i < kProducts * kN / 2; ++i) acc[b][i] = 0.f;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (i < steps) load<0, 1>(stages + i * kStage);
      copy_async_commit();
      advance();
    }
    int stage = 0, free = kAhead % Config::kStages;
    for (int i = 0; i < steps; ++i) {
      copy_async_wait<kAhead - 1>();
      __syncthreads();  // the step is there, and all have read the one whose stage is loaded now
      const bool loads = i + kAhead < steps;
      multiply(acc, shared_address(stages) + stage * kStage, [&](auto part) {
        if (loads) this->template load<part.kValue, kSteps>(stages + free * kStage);
      });
      copy_async_commit();
      advance();
      if (++stage == Config::kStages) stage = 0;
      if (++free == Config::kStages) free = 0;
    }
  }
};

}  // namespace unisono
