// Statistics (exchange/statistic.cuh) of groups of channels, merged over an image by the CTAs of one launch.
//
// Every warpgroup writes the statistic of its rows to its own slot, a message (exchange/message.cuh) for each piece of
// its channels (exchange/pieces.cuh). Where an image has more messages than its readers load at once, its slots form
// segments of up to 128. Each member of a segment merges a share of its pieces over the segment; the one that needs the
// result merges the segments. Every merge has a fixed order, no matter which CTA performs it: the same bits each run.
#pragma once
#include "unisono/exchange/message.cuh"
#include "unisono/exchange/pieces.cuh"

namespace unisono {

// Slots and segments of an exchange: (images, slots, pieces) and (images, segments, pieces).
template <class Statistic>
UNISONO_DEVICE Message<Statistic>* slots_of(const ExchangeParams& p) {
  return reinterpret_cast<Message<Statistic>*>(p.slots);
}
template <class Statistic>
UNISONO_DEVICE Message<Statistic>* segments_of(const ExchangeParams& p) {
  return reinterpret_cast<Message<Statistic>*>(p.segments);
}

// The share of segment work that falls to the owner of `slot`: some of the tile's pieces, over the whole segment. By
// whole warps, `warp` of `warps`: a piece a warp, a message a lane, then a tree.
template <class Statistic, class Of>
UNISONO_DEVICE void merge_share(const ExchangeParams& p, int image, int slot, int first_channel, int channels,
                                u32 epoch, int warp, int warps) {
  const int pieces = Of::before(p, channels);
  const TilePieces<Of> of_tile(p, first_channel, channels);
  const int segment = slot / p.segment_slots, first = segment * p.segment_slots, member = slot - first;
  const int members = smaller(p.segment_slots, p.slots_per_image - first), lane = threadIdx.x & 31;
  const int share = divide_up(of_tile.count, members), begin = of_tile.first + member * share;
  const int end = smaller(smaller(begin + share, of_tile.first + of_tile.count), pieces);
  for (int piece = begin + warp; piece < end; piece += warps) {
    const Message<Statistic>* message =
        slots_of<Statistic>(p) + (size_t(image) * p.slots_per_image + first + lane) * pieces + piece;
    const Statistic merged = Statistic::over_lanes(
        merge_messages<4>(message, size_t(32) * pieces, divide_up(larger(0, members - lane), 32), epoch), 32);
    if (lane == 0)
      write_message(segments_of<Statistic>(p) + (size_t(image) * p.segments_per_image + segment) * pieces + piece,
                    merged, epoch);
  }
}

// The threads that gather statistics together: a warpgroup by its named barrier, or a warp.
template <int kAtOnce>
struct WarpgroupCrew {
  static constexpr int kThreads = 128, kBatch = kAtOnce;  // loads in flight while accumulators are held
  int thread, barrier;
  UNISONO_DEVICE void sync() const { named_barrier(barrier, 128); }
};
struct WarpCrew {
  static constexpr int kThreads = 32, kBatch = 4;
  int thread;
  UNISONO_DEVICE void sync() const { __syncwarp(); }
};

// Statistics of the groups of kColumns channels from first_channel, once the image is complete. Groups may begin before
// the first channel and end after the last. `scratch` holds kScratch statistics; groups too wide for it take a slow
// path.
template <class Statistic, class Crew, int kScratch, class Of>
struct GroupStatistics {
  const ExchangeParams& p;
  const Crew crew;
  Statistic* const scratch;
  const u32 epoch;
  const int image, first_channel, channels, last, first_group, groups;  // channels up to `last`; their groups
  const int per, begin, count;                                          // pieces: at most of a group; of all of these
  const size_t pieces;                                                  // of a slot
  const bool fits;
  static constexpr int kColumns = Of::kColumns, kEach = divide_up(kColumns, Crew::kThreads);
  int group[kEach];  // of this thread's channels, from `first_group`

  UNISONO_DEVICE GroupStatistics(const ExchangeParams& p, const Crew& crew, Statistic* scratch, u32 epoch, int image,
                                 int first_channel, int channels)
      : p(p),
        crew(crew),
        scratch(scratch),
        epoch(epoch),
        image(image),
        first_channel(first_channel),
        channels(channels),
        last(smaller(first_channel + kColumns, channels)),
        first_group(divided(first_channel, p.by_group_channels)),
        groups(divided(last - 1, p.by_group_channels) + 1 - first_group),
        per(Of::most_of_group(p)),
        begin(Of::before_group(p, first_group)),
        count(begin_of(groups)),
        pieces(Of::before(p, channels)),
        fits(count <= kScratch) {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      group[j] = divided(first_channel + crew.thread + Crew::kThreads * j, p.by_group_channels) - first_group;
  }

  UNISONO_DEVICE const Message<Statistic>* segments() const {
    return segments_of<Statistic>(p) + size_t(image) * p.segments_per_image * pieces;
  }
  // Where the pieces of group i from first_group on begin among all these, and how many they are.
  UNISONO_DEVICE int begin_of(int i) const { return Of::kCut ? Of::before_group(p, first_group + i) - begin : i * per; }
  UNISONO_DEVICE int count_of(int i) const { return Of::kCut ? begin_of(i + 1) - begin_of(i) : per; }

  // Waits for the image; leaves the statistics of the groups in the scratch, if their pieces fit. The segments of a
  // piece are divided among `parts` neighbouring lanes, a power of two, so that all messages are loaded at once; a tree
  // of shuffles merges what they have.
  UNISONO_DEVICE void gather() const {
    if (!fits) return;
    constexpr int kLog = Crew::kThreads == 128 ? 7 : 5;
    static_assert(Crew::kThreads == 1 << kLog, "lanes of a piece by shifts");
    const int shift = lanes_log(kLog, count, 31 - __clz(p.segments_per_image)), parts = 1 << shift;
    const int part = crew.thread & (parts - 1);
    for (int i = crew.thread >> shift; (i & ~((32 >> shift) - 1)) < count;
         i += Crew::kThreads >> shift) {  // whole warps
      const bool exists = i < count;
      Statistic m =
          merge_messages<Crew::kBatch>(segments() + part * pieces + begin + i, pieces << shift,
                                       exists ? (p.segments_per_image - part + parts - 1) >> shift : 0, epoch);
      if (shift > 0) m = Statistic::over_lanes(m, parts);
      if (exists && part == 0) scratch[i] = m;
    }
    crew.sync();
    if (per > 1) merge_pieces();
  }

  // The pieces in the scratch become groups there, scratch[i] of group i. Neighbouring lanes divide a group's pieces,
  // in an order that follows from their number alone, whichever CTA merges. A round writes no piece that a later one
  // reads, as group i lies at or before its own pieces.
  UNISONO_DEVICE void merge_pieces() const {
    const int shift = smaller(5, 31 - __clz(per)), parts = 1 << shift, part = crew.thread & (parts - 1);
    for (int first = 0; first < groups; first += Crew::kThreads >> shift) {
      const int i = first + (crew.thread >> shift);
      typename Statistic::Merger merger;
      for (int u = part; i < groups && u < count_of(i); u += parts) merger.add(scratch[begin_of(i) + u]);
      Statistic all = merger.total();
      all = Statistic::over_lanes(all, parts);
      crew.sync();
      if (i < groups && part == 0) scratch[i] = all;
    }
    crew.sync();
  }

  // Thread t calls emit(i, n, result) for the channels n = t + kThreads * i of the tile that exist, and once a group
  // that begins in the tile record(group, result) if `recorder`.
  template <class Emit, class Record>
  UNISONO_DEVICE void emit(bool recorder, Emit&& emit, Record&& record) const {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int n = crew.thread + Crew::kThreads * j, c = first_channel + n;
      if (n >= kColumns || c >= last) break;
      const Statistic all = fits ? scratch[group[j]] : merge_group(group[j]);
      const typename Statistic::Result result = all.result();
      emit(j, n, result);
      if (const int g = first_group + group[j]; recorder && c == g * p.group_channels) record(g, result);
    }
    crew.sync();
  }

  UNISONO_DEVICE Statistic merge_group(int i) const {
    typename Statistic::Merger merger;
    for (int u = 0; u < count_of(i); ++u)
      merger.add(merge_messages<4>(segments() + begin + begin_of(i) + u, pieces, p.segments_per_image, epoch));
    return merger.total();
  }
};

UNISONO_DEVICE u32 epoch_of(const EpochParams& p) {
  return u32(divided(int(*static_cast<const volatile u32*>(p.exits)), p.by_ctas));
}

// Called by one thread of each CTA before all else. In a checked build CTAs that come are counted, too, after
// those that left: both counts name the same launch, unless two launches with this workspace are in flight at once.
UNISONO_DEVICE void enter_launch(const EpochParams& p) {
  if constexpr (kChecked) {
    const u32 came = increment_wrapping(p.exits + 1, p.last);
    if (u32(divided(int(came), p.by_ctas)) != epoch_of(p)) end_with_workspace_in_use(p.exits);
  }
}

// Called by one thread of each CTA once all its warps have the epoch and are done with the workspace. Nobody waits
// for it.
UNISONO_DEVICE void leave_launch(const EpochParams& p) {
  delay_point();
  count_wrapping(p.exits, p.last);
}

}  // namespace unisono
