// Gradients of a convolution's filter by warpgroup matrix instructions. For 64 pixels after 64, sums (filters, slabs of
// 64 channels of a tap) += g^T x: both operands lie in shared memory as TMA finds them, pixels of 64 channels, which
// are MN-major. The last warpgroup loads them.
//   Halo tiles, of filters of 3x3 at stride 1: 8x8 pixels of g for 64 filters, and 10x10 of x for 64 channels. Each of
//   the three warpgroups has a line of the filter; its taps are read from the same pixels of x, a pixel on from tap to
//   tap. Pixels, of all other filters: the next 64 of g for 64 filters a warpgroup, and for each slab what its tap
//   reads.
#pragma once
#include "unisono/mma/sm90_wgmma.cuh"
#include "unisono/product/sm90_filter_gradient_parts.cuh"
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/ptx/sm90_tma.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono::product {

// kGroups: warpgroups that multiply; kSlabs: of each. kRegisters: of a thread of theirs.
template <class ElementOf, bool kHalo, int kGroupsOf, int kSlabsOf, int kStagesOf, int kRegistersOf>
struct Sm90FilterGradientShape {
  using Element = ElementOf;
  static constexpr int kGroups = kGroupsOf, kSlabs = kSlabsOf, kStages = kStagesOf, kRegisters = kRegistersOf;
  static constexpr int kConsumers = 128 * kGroups, kLoadRegisters = 24;
  static constexpr int kBox = 64 * 128;                     // bytes of 64 pixels
  static constexpr int kPitch = 10, kHaloPixels = 10 * 10;  // of x, around 8x8 of g
  static constexpr int kGradientBoxes = kHalo ? 1 : kGroups;
  static constexpr int kGradientBytes = kGradientBoxes * kBox;
  static constexpr int kImageBytes = kHalo ? (kHaloPixels * 128 + 1023) / 1024 * 1024 : kSlabs * kBox;
  static constexpr int kStageBytes = kGradientBytes + kImageBytes;
  static constexpr int kLoaded = kGradientBytes + (kHalo ? kHaloPixels * 128 : kImageBytes);
  using Tile = Sm90FilterGradientTile<kHalo, 64 * kGradientBoxes, kHalo ? kGroups * kSlabs : kSlabs>;
  static_assert(!kHalo || (kGroups == 3 && kSlabs == 3), "halo tiles serve nine taps");
};

// Addresses in shared memory: stages of g and x, then for each a barrier that says when they are there, and one that
// says when they have been read.
template <class Shape>
struct Sm90FilterGradientMemory {
  u32 first;

  static UNISONO_DEVICE Sm90FilterGradientMemory in(const u8* shared) {
    return {(shared_address(shared) + 1023) & ~1023u};
  }
  UNISONO_DEVICE u32 gradient(u32 stage) const { return first + stage * Shape::kStageBytes; }
  UNISONO_DEVICE u32 image(u32 stage) const { return gradient(stage) + Shape::kGradientBytes; }
  UNISONO_DEVICE u32 full(u32 stage) const { return gradient(Shape::kStages) + 8 * stage; }
  UNISONO_DEVICE u32 empty(u32 stage) const { return full(Shape::kStages) + 8 * stage; }

  UNISONO_DEVICE void init() const {
    for (u32 stage = 0; stage < Shape::kStages; ++stage)
      mbarrier_init(full(stage), 1), mbarrier_init(empty(stage), 4 * Shape::kGroups);
    mbarrier_init_fence();
  }
};

// A tile, and the steps that are summed for it. CTAs that run at the same time have the same pixels.
struct Sm90FilterGradientUnit {
  int group, filter, column;  // the first filter of the group, and which column of tiles
  int begin, end;             // steps
  int partial;                // which of `partials`; -1: the tile is whole

  template <class Tile>
  static UNISONO_DEVICE Sm90FilterGradientUnit of(const Sm90FilterGradientParams& p, int unit) {
    Sm90FilterGradientUnit u{0, 0, 0, 0, p.steps, -1};
    int tile = unit;
    if (unit >= p.whole) {
      const int cut = p.tiles - p.whole, part = (unit - p.whole) / cut, place = (unit - p.whole) % cut;
      tile = p.whole + place;
      u.begin = part * p.part_steps, u.end = smaller(u.begin + p.part_steps, p.steps);
      u.partial = place * p.parts + part;
    }
    u.column = tile % p.column_tiles;
    u.filter = tile / p.column_tiles % p.filter_tiles * Tile::kRows;
    u.group = tile / p.column_tiles / p.filter_tiles;
    return u;
  }
};

// Loads of a unit: halo tiles.
template <class Shape, bool kHalo>
struct Sm90FilterGradientLoads {
  int filter, channel, x, y, image;

  UNISONO_DEVICE Sm90FilterGradientLoads(const Sm90FilterGradientParams& p, const Sm90FilterGradientUnit& u)
      : filter(u.group * p.filters + u.filter),
        channel(u.group * p.channels + 64 * u.column),
        x(u.begin % p.across),
        y(u.begin / p.across % p.down),
        image(u.begin / p.across / p.down) {}
  UNISONO_DEVICE void next(const Sm90FilterGradientParams& p, u32 to_gradient, u32 to_image, u32 full) {
    tma_load_4d(to_image, p.image, full, channel, 8 * x - p.pad_w, 8 * y - p.pad_h, image);
    tma_load_4d(to_gradient, p.gradient, full, filter, 8 * x, 8 * y, image);
    if (++x == p.across) x = 0, ++y;
    if (y == p.down) y = 0, ++image;
  }
};

// Pixels of all images, one after another. Slabs that do not exist are zeros.
template <class Shape>
struct Sm90FilterGradientLoads<Shape, false> {
  int filter, step;
  int channels[Shape::kSlabs];
  u16 right[Shape::kSlabs], below[Shape::kSlabs];

  UNISONO_DEVICE Sm90FilterGradientLoads(const Sm90FilterGradientParams& p, const Sm90FilterGradientUnit& u)
      : filter(u.group * p.filters + u.filter), step(u.begin) {
#pragma unroll
    for (int i = 0; i < Shape::kSlabs; ++i) {
      const auto slab = Shape::Tile::slab(p, u.column, i);
      const int tap = slab.exists ? slab.tap : 0;
      channels[i] = slab.exists ? u.group * p.channels + slab.channel : 1 << 28;
      right[i] = u16(tap % p.taps_w * p.dilation_w), below[i] = u16(tap / p.taps_w * p.dilation_h);
    }
  }
  UNISONO_DEVICE void next(const Sm90FilterGradientParams& p, u32 to_gradient, u32 to_image, u32 full) {
    const int pixel = 64 * step++, line = pixel / p.across, image = line / p.down;
    const int w = pixel % p.across * p.stride_w - p.pad_w, h = line % p.down * p.stride_h - p.pad_h;
#pragma unroll
    for (int i = 0; i < Shape::kSlabs; ++i)
      tma_load_im2col(to_image + i * Shape::kBox, p.image, full,
                      Im2colCoordinates{channels[i], w, h, image, right[i], below[i]});
#pragma unroll
    for (int i = 0; i < Shape::kGroups; ++i)
      tma_load_3d(to_gradient + i * Shape::kBox, p.gradient, full, filter + 64 * i, pixel, 0);
  }
};

template <class Shape>
UNISONO_DEVICE void load_filter_gradient(const Sm90FilterGradientParams& p, const Sm90FilterGradientMemory<Shape>& m) {
  tma_prefetch(p.image), tma_prefetch(p.gradient);
  RingPosition<Shape::kStages> at(0);
  for (int unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    const auto u = Sm90FilterGradientUnit::of<typename Shape::Tile>(p, unit);
    Sm90FilterGradientLoads<Shape, Shape::Tile::kHalo> loads(p, u);
    for (int step = u.begin; step < u.end; ++step, at.advance()) {
      mbarrier_wait(m.empty(at.stage), at.parity ^ 1);
      mbarrier_arrive_expect(m.full(at.stage), Shape::kLoaded);
      loads.next(p, m.gradient(at.stage), m.image(at.stage), m.full(at.stage));
    }
  }
}

// Stores what a lane has of a row of 64 columns, 8 j + 2 (lane % 4) + {0, 1} in sums[4 j] and after it, as far as the
// first `exist` columns, a multiple of 8: eight bytes at a time, so that four lanes write 32.
UNISONO_DEVICE void store_sums(float* to, const float* sums, int exist) {
  const int column = int(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int j = 0; j < 8; ++j)
    if (8 * j < exist) *reinterpret_cast<float2*>(to + 8 * j + column) = {sums[4 * j], sums[4 * j + 1]};
}

// An even lane takes four columns of the first of two octets, the next lane four of the second.
template <class Element>
UNISONO_DEVICE void store_sums(u16* to, const float* sums, int exist) {
  const bool odd = threadIdx.x % 2 == 1;
  const int column = (odd ? 8 : 0) + int(threadIdx.x) % 4 / 2 * 4;
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    const u32 low = Element::pack(sums[4 * j], sums[4 * j + 1]), high = Element::pack(sums[4 * j + 4], sums[4 * j + 5]);
    const u32 other = __shfl_xor_sync(~0u, odd ? low : high, 1);
    if (8 * j + column < exist)
      *reinterpret_cast<uint2*>(to + 8 * j + column) = {odd ? other : low, odd ? high : other};
  }
}

// What a warpgroup sums: 64 filters of the tile, from `row` on, by its kSlabs slabs, from `slab` on.
template <class Shape, bool kF32>
struct Sm90FilterGradientSums {
  using Element = typename Shape::Element;
  using Tile = typename Shape::Tile;
  float sums[32 * Shape::kSlabs];
  int row, slab;
  u64 a, b;  // descriptors of its filters and slabs of the first stage

  UNISONO_DEVICE Sm90FilterGradientSums(const Sm90FilterGradientMemory<Shape>& m, int group)
      : row(Tile::kHalo ? 0 : 64 * group), slab(Tile::kHalo ? Shape::kSlabs * group : 0) {
    a = columns_descriptor<Shape::kBox>(m.gradient(0) + row * 128);
    if constexpr (Tile::kHalo)
      b = columns_descriptor<128, Shape::kPitch * 128>(m.image(0) + group * Shape::kPitch * 128);
    else
      b = columns_descriptor<Shape::kBox>(m.image(0));
  }

  // Begins the products of a stage.
  UNISONO_DEVICE void add(u32 stage, u32 accumulate) {
    constexpr int kDeep = Tile::kHalo ? 2 * Shape::kPitch * 128 : 2048;  // bytes of x between 16 pixels and the next
    const u64 at = stage * (Shape::kStageBytes >> 4);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      wgmma<Element, 64 * Shape::kSlabs, true, true>(sums, a + at + (k * 2048 >> 4), b + at + (k * kDeep >> 4),
                                                     accumulate | k);
    wgmma_commit();
  }

  UNISONO_DEVICE void store(const Sm90FilterGradientParams& p, const Sm90FilterGradientUnit& u) const {
    const int lane = int(threadIdx.x) % 128;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int of_tile = row + lane / 32 * 16 + lane % 32 / 4 + 8 * half, filter = u.filter + of_tile;
#pragma unroll
      for (int i = 0; i < Shape::kSlabs; ++i) {
        const auto at = Tile::slab(p, u.column, slab + i);
        const int exist = filter < p.filters && at.exists ? p.channels - at.channel : 0;
        const i64 to = (i64(u.group) * p.filters + filter) * p.result_filter + at.tap * p.result_tap + at.channel;
        const float* const from = sums + 32 * i + 2 * half;
        if (u.partial >= 0)
          store_sums(p.partials + u.partial * Tile::kSums + of_tile * Tile::kColumns + (slab + i) * 64, from, exist);
        else if constexpr (kF32)
          store_sums(static_cast<float*>(p.result) + to, from, exist);
        else
          store_sums<Element>(static_cast<u16*>(p.result) + to, from, exist);
      }
    }
  }
};

template <class Shape, bool kF32>
UNISONO_DEVICE void multiply_filter_gradient(const Sm90FilterGradientParams& p,
                                             const Sm90FilterGradientMemory<Shape>& m) {
  const int group = __shfl_sync(~0u, int(threadIdx.x) / 128, 0);  // so that the compiler knows it to be uniform
  Sm90FilterGradientSums<Shape, kF32> own(m, group);
  const auto release = [&](u32 stage) {
    if (threadIdx.x % 32 == 0) mbarrier_arrive(m.empty(stage));
  };
  RingPosition<Shape::kStages> at(0);
  for (int unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    const auto u = Sm90FilterGradientUnit::of<typename Shape::Tile>(p, unit);
    u32 previous = 0;
    for (int step = u.begin; step < u.end; ++step, at.advance()) {
      mbarrier_wait(m.full(at.stage), at.parity);
      own.add(at.stage, step - u.begin);
      if (step > u.begin) {
        wgmma_wait<1>();
        release(previous);
      }
      previous = at.stage;
    }
    wgmma_wait<0>();
    wgmma_hold(own.sums);
    release(previous);
    own.store(p, u);
  }
}

// kF32: of the result; else it has the element's 16 bits.
template <class Shape, bool kF32>
UNISONO_DEVICE void sm90_filter_gradient(const Sm90FilterGradientParams& p) {
  UNISONO_DYNAMIC_SHARED(shared);
  const auto m = Sm90FilterGradientMemory<Shape>::in(shared);
  if (threadIdx.x == 0) m.init();
  __syncthreads();
  if (threadIdx.x >= Shape::kConsumers) {
    register_release<Shape::kLoadRegisters>();
    if (threadIdx.x == Shape::kConsumers) load_filter_gradient<Shape>(p, m);
  } else {
    register_acquire<Shape::kRegisters>();
    multiply_filter_gradient<Shape, kF32>(p, m);
  }
}

}  // namespace unisono::product
