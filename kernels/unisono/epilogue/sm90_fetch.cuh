// Operands [m,n] of 16 bits that TMA brings while their tile is multiplied: Config::kFetch of them, the first that
// `before` reads or, if none of these has 16 bits or there is no normalisation, `after`. Ordinary loads in the order of
// fragments (epilogue/tensors.cuh) read 4 bytes a lane, of sectors that the next lanes read again, and take two
// instructions an element; here an operand's slice of 16 rows x kSlice channels comes by one box into the staging
// buffer from which the result's slice will leave, swizzled as that, is read by ldmatrix where stmatrix writes the
// result. Operands beyond the first have their own buffers. A tile's first slices, as many as there are staging
// buffers, are asked for when the tile begins, the others as the stores before them have been read; those are on
// their way to L2 until then.
//
// Who waits for whom, of each buffer:
//   read, then written over by the result    the same warp, the same elements
//   result written, then stored              fence, then the warp (channels first: the warpgroup) meets, as without
//                                            operands
//   stored, then loaded into                 by one thread, which waits until its store has been read
//   read by `before`, then loaded into       fence, then the warp (the warpgroup) meets; the result comes when all is
//                                            read
//   loaded, then read                        an mbarrier of the warp, or of the warpgroup, whose four warps then load
//                                            a slice each
#pragma once
#include "unisono/epilogue/sm90_fragment.cuh"
#include "unisono/epilogue/sm90_plane_slices.cuh"
#include "unisono/epilogue/tensors.cuh"
#include "unisono/epilogue/tile.cuh"
#include "unisono/params/sm90_shared_layout.cuh"
#include "unisono/ptx/sm90_tma.cuh"

namespace unisono {

// How a slice goes to shared memory and comes from there, which is at the shared-memory address of this warp's part of
// it, or of the first of four warps', `stride` bytes apart. Group q of four pairs is read at once.
// 16 rows from m on.
struct RowPlaces {
  template <class Rows>
  static UNISONO_DEVICE SlicePlace place(const Rows& rows, int m, int channel) {
    return {channel, rows.store_x(m), rows.store_y(m), 0};
  }
};
template <int kSlice>
struct RowSlices<false, kSlice> : RowPlaces {
  static UNISONO_DEVICE void write(u8* first, int stride, const u32 (&packed)[kSlice / 4], int warp, int lane) {
    write_rows<kSlice>(first + warp * stride, packed, lane);
  }
  template <int kWords>
  static UNISONO_DEVICE void read(u32 slice, int, int q, u32 (&words)[kWords], int, int lane) {
    read_rows<kSlice>(slice, q, words, lane);
  }
};
template <int kSlice>
struct RowSlices<true, kSlice> : RowPlaces {
  static UNISONO_DEVICE void write(u8* first, int stride, const u32 (&packed)[kSlice / 4], int warp, int lane) {
    write_channels(first, stride, packed, warp, lane);
  }
  static UNISONO_DEVICE void read(u32 slice, int stride, int q, u32 (&words)[4], int warp, int lane) {
    read_channels(slice, stride, q, words, warp, lane);
  }
};
// The warp's quarter of the channels, of the 64 rows around m.
template <int kSlice>
struct PlanePlaces {
  template <class Rows>
  static UNISONO_DEVICE SlicePlace place(const Rows& rows, int m, int channel) {
    return {rows.store_x(m / 64 * 64), channel + m % 64 / 16 * (kSlice / 4), rows.store_y(m / 64 * 64), 0};
  }
};
template <int kSlice, bool kTwoDimensional>
struct PlaneSlices<false, kSlice, kTwoDimensional> : PlanePlaces<kSlice> {
  using Planes = PlaneSlice<kSlice, kTwoDimensional>;
  static UNISONO_DEVICE void write(u8* first, int stride, const u32 (&packed)[kSlice / 4], int warp, int lane) {
    Planes::write_pixels(first, stride, packed, warp, lane);
  }
  static UNISONO_DEVICE void read(u32 slice, int stride, int q, u32 (&words)[4], int warp, int lane) {
    Planes::read_pixels(slice, stride, q, words, warp, lane);
  }
};
template <int kSlice, bool kTwoDimensional>
struct PlaneSlices<true, kSlice, kTwoDimensional> : PlanePlaces<kSlice> {
  using Planes = PlaneSlice<kSlice, kTwoDimensional>;
  static UNISONO_DEVICE void write(u8* first, int stride, const u32 (&packed)[kSlice / 4], int warp, int lane) {
    Planes::write_channels(first + warp * stride, packed, lane);
  }
  static UNISONO_DEVICE void read(u32 slice, int, int q, u32 (&words)[4], int, int lane) {
    Planes::read_channels(slice, q, words, lane);
  }
};
template <bool kInPlanes, bool kSwap, int kSlice, bool kTwoDimensional>
using SlicesOf = Either<kInPlanes, PlaneSlices<kSwap, kSlice, kTwoDimensional>, RowSlices<kSwap, kSlice>>;

// Operands [kFirst, kEnd) in the order of pairs: kFetch of them from slices in shared memory, the others as Others has
// them.
template <class Visitor, int kFirst, int kEnd, int kSlice, int kFetch, class Slices, class Others>
struct FetchedTensors {
  static constexpr int kPairsOfSlice = kSlice / 4, kWords = smaller(4, kPairsOfSlice);

  Others others;
  u32 slice[kFetch];          // of each fetched operand: shared-memory address
  int stride[kFetch];         // where all four warps write to a slice: to the next warp's
  u32 words[kFetch][kWords];  // pairs that come of one ldmatrix

  UNISONO_DEVICE FetchedTensors(const typename Visitor::Params& visitor, const ConvGeometry& g, int warp, int lane)
      : others{visitor, g, warp, lane} {}

  template <class At>
  UNISONO_DEVICE void open(int first, int end, const At& at) {
    others.open(first, end, at);
  }
  template <class At>
  UNISONO_DEVICE void take(int p, int end, float* x, float* y, const At& at) {
    const int pair = p % kPairsOfSlice;
    if (pair % kWords == 0) {
#pragma unroll
      for (int i = 0; i < kFetch; ++i)
        Slices::read(slice[i], stride[i], pair / kWords, words[i], others.warp, others.lane);
    }
    others.take(p, end, x, y, at);
    unpack<kFirst, 0>(pair % kWords, x, y);
  }
  template <int i, int n>
  UNISONO_DEVICE void unpack(int word, float* x, float* y) const {
    if constexpr (i < kEnd && n < kFetch) {
      constexpr bool kThis = is_fetchable<Visitor, i>();
      if constexpr (kThis) {
        const float2 both = TensorOf<Visitor, i>::unpack(words[n][word]);
        *x = both.x, *y = both.y;
      }
      unpack<i + 1, n + kThis>(word, x + 1, y + 1);
    }
  }
};

// The buffers of a warpgroup and what fills them; Tail is its Epilogue.
template <class Tail>
struct Fetch {
  using At = typename Tail::At;
  static constexpr int kCount = Tail::kFetch, kBuffers = Tail::kStoreBuffers, kSteps = Tail::kStoresPerTile;
  static constexpr int kSliceBytes = Tail::kSliceBytes, kSlice = Tail::kSlice, kSlices = Tail::kSlices;
  static constexpr bool kShared = Tail::kShared;
  static constexpr int kBarriers = shared_layout::fetch_barriers(kCount, kShared, kBuffers);  // of a warpgroup
  static constexpr int kLag = smaller(1, kBuffers - 1);  // slices that are stored while the one before them makes room
  static_assert(kBuffers <= 32 || kCount == 0, "a bit for each buffer's parity");

  Tail& tail;

  UNISONO_DEVICE int warp() const { return tail.thread / 32; }
  UNISONO_DEVICE bool leads() const { return (tail.thread & 31) == 0; }
  static UNISONO_DEVICE int stride(int operand) { return operand == 0 ? Tail::kStaging : kBuffers * kSliceBytes; }
  UNISONO_DEVICE u8* slice(int operand, int of_warp, int place) const {
    u8* const first =
        operand == 0 ? tail.staging(0) : tail.memory + Tail::kFetchOffset + (operand - 1) * 4 * kBuffers * kSliceBytes;
    return first + of_warp * stride(operand) + place * kSliceBytes;
  }
  UNISONO_DEVICE u32 full(int place) const {
    return tail.fetch_barriers + 8 * (kShared ? place : warp() * kBuffers + place);
  }

  // By one thread of the CTA, of all of its warpgroups.
  static UNISONO_DEVICE void init_barriers(u32 first, int warpgroups) {
    for (int i = 0; i < warpgroups * kBarriers; ++i) mbarrier_init(first + 8 * i, kShared ? 4 : 1);
  }

  // Slice `step` of the tile, by one lane of each warp: of all operands, or of one after the other.
  UNISONO_DEVICE void load(const At& at, int step) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) load(at, step, i);
  }
  UNISONO_DEVICE void load(const At& at, int step, int operand) const {
    const int place = step % kBuffers, m = 64 * (step / kSlices) + 16 * warp(),
              channel = at.first_channel + step % kSlices * kSlice;
    if (operand == 0) {
      delay_point();
      mbarrier_arrive_expect(full(place), kCount * kSliceBytes);
    }
    const auto from = Tail::slice_place(at, m, channel);
    tma_load_4d(shared_address(slice(operand, warp(), place)), tail.fetch_map(operand), full(place), from.x, from.y,
                from.z, from.image);
  }
  UNISONO_DEVICE void prefetch(const At& at, int step) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) prefetch(at, step, i);
  }
  UNISONO_DEVICE void prefetch(const At& at, int step, int operand) const {
    const int m = 64 * (step / kSlices) + 16 * warp(), channel = at.first_channel + step % kSlices * kSlice;
    const auto from = Tail::slice_place(at, m, channel);
    tma_prefetch_4d(tail.fetch_map(operand), from.x, from.y, from.z, from.image);
  }

  // Lanes have read what is about to be loaded over: results that are pooled after they were stored.
  UNISONO_DEVICE void close_reads() const {
    if (!Tail::Resample::kPooled) return;
    fence_async_shared();
    __syncwarp();
  }

  // When a tile begins, before its main loop.
  UNISONO_DEVICE void open(const At& at) const {
    close_reads();
    if (leads()) {
      tma_store_wait_read<0>();
#pragma unroll 1
      for (int step = 0; step < kBuffers; ++step) load(at, step);
#pragma unroll 1
      for (int step = kBuffers; step < kSteps; ++step) prefetch(at, step);
    }
    __syncwarp();
  }
  // The operands' slices of `step` are whole; `tensors` reads them.
  template <class Tensors>
  UNISONO_DEVICE void await(int step, Tensors& tensors) const {
    const int place = step % kBuffers;
    mbarrier_wait(full(place), tail.fetch_parity >> place & 1);
    tail.fetch_parity ^= 1u << place;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      tensors.slice[i] = shared_address(slice(i, kShared ? 0 : warp(), place)), tensors.stride[i] = stride(i);
  }
  // Once slice `step` is on its way out: into the buffers of one that has left comes what is due there.
  UNISONO_DEVICE void refill(const At& at, int step) const {
    if (step < kLag || step - kLag + kBuffers >= kSteps) return;
    close_reads();
    if (leads()) {
      tma_store_wait_read<kLag>();
      load(at, step - kLag + kBuffers);
    }
    __syncwarp();
  }
  // The same once slice `step` has been read, and nothing is written in its place.
  UNISONO_DEVICE void refill_read(const At& at, int step) const {
    if (step + kBuffers >= kSteps) return;
    fence_async_shared();
    tail.meet();
    if (leads()) load(at, step + kBuffers);
    __syncwarp();
  }
};

// The same as Fetch::open, little by little between the steps of the tile's main loop: where no other consumer group
// multiplies meanwhile, all at once would come before the main loop's own first stages.
template <class Tail>
struct SpreadFetch {
  static constexpr int kPieces = Fetch<Tail>::kSteps * Fetch<Tail>::kCount;
  const Fetch<Tail> fetch;
  const typename Tail::At& at;
  const int every;
  int wait, next = 0;

  UNISONO_DEVICE SpreadFetch(Tail& tail, const typename Tail::At& at, int steps)
      : fetch{tail}, at(at), every(larger(1, steps / (kPieces + 2))), wait(every) {
    fetch.close_reads();
    if (fetch.leads()) tma_store_wait_read<0>();
    if (steps < 2 * kPieces)  // too few to hide behind
      while (next < kPieces) piece();
  }
  UNISONO_DEVICE void operator()() {  // after each step
    if (--wait > 0) return;
    wait = every;
    piece();
  }
  UNISONO_DEVICE void finish() {
    while (next < kPieces) piece();
    __syncwarp();
  }
  UNISONO_DEVICE void piece() {
    if (next < kPieces && fetch.leads()) {
      const int step = next / Fetch<Tail>::kCount, operand = next % Fetch<Tail>::kCount;
      if (step < Fetch<Tail>::kBuffers)
        fetch.load(at, step, operand);
      else
        fetch.prefetch(at, step, operand);
    }
    ++next;
  }
};

// Between the steps of a main loop during which nothing is fetched.
struct NothingSpread {
  template <class Tail, class At>
  UNISONO_DEVICE NothingSpread(Tail&, const At&, int) {}
  UNISONO_DEVICE void operator()() const {}
  UNISONO_DEVICE void finish() const {}
};
// Operands that are fetched when their tile begins, or that are not, or between the steps.
template <class Tail>
struct AtOnce {
  static UNISONO_DEVICE void open(Tail& tail, const typename Tail::At& at) { Fetch<Tail>{tail}.open(at); }
};
template <class Tail>
struct NotAtOnce {
  static UNISONO_DEVICE void open(Tail&, const typename Tail::At&) {}
};

}  // namespace unisono
