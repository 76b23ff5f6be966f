// What the simulator runs: launches of a persistent kernel, on streams, over workspaces.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace unisono::simulator {

enum class Mode {
  kPlain,     // no normalisation: nothing waits for another CTA
  kResident,  // accumulators wait for the image's statistics, one store
  kStreamed,  // raw store, next tile; later re-read, normalise, store
  kKept,      // centred values stay in shared memory until the next tile is published; then normalised there if that
              // one is of a later image, else stored raw and loaded back once the group has come to a later image
  kRows,      // general epilogues: the tiles across a row exchange what they have of it, level after level; one store
  kOverRows,  // general epilogues: the tiles of an image reduce over its rows, level after level, each merged by
              // whoever comes last; one store; then reductions that are stored, for which nobody waits
};
enum class Schedule { kCooperative, kPingPong };

// How CTAs learn of each other's statistics (docs/one-launch-protocol.md).
enum class Exchange {
  kCounters,  // slots, then arrivals at counters; the last to arrive merges and raises the image's flag
  kTags,      // slots whose entries carry the epoch; whoever needs one waits for its tag. Streamed: the second passes
              // are a warpgroup's of their own; kept: the consumers', with columns that spare warps prepare
};

// One deviation from the protocol each; the explorer must find its consequence.
enum class Bug {
  kNone,
  kStraddlingTile,           // tiles run through the borders between images
  kWaitBeforePublish,        // waits for the image before its own statistics are published
  kStoreOrderBeforePublish,  // ping-pong: waits until it may store, then publishes
  kNoRelease,                // arrivals at counters acquire but do not release
  kNoAcquire,                // arrivals at counters release but do not acquire
  kRelaxedCounter,           // arrivals at counters are relaxed
  kRelaxedFlag,              // the wait for an image does not acquire
  kNoFlagRelease,            // the image's flag is raised without release
  kTornEntry,                // an entry's tag is written ahead of its value
  kReadWaitOnly,             // re-read after cp.async.bulk.wait_group.read instead of the full wait
  kNoProxyFence,             // re-read without fence.proxy.async
  kWrongGroup,               // re-read after a full wait that leaves one group too many pending
  kStagingReused,            // a staging buffer is written again without wait_group.read
  kLeaveEarly,               // a CTA ends while TMA may still read its shared memory
  kEpochNotAdvanced,         // a CTA does not count itself out
  kExitsAsEpoch,             // the epoch is what CTAs have counted, undivided: more for those that start late
  kCountedOutEarly,          // a CTA is counted out by a warp that is done, though others may not have the epoch yet
  kEpochBeforeGridWait,      // programmatic launch: the epoch is read before griddepcontrol.wait
  kProducerParity,           // the producer's parity does not change when the ring wraps
  kConsumerPosition,         // ping-pong: a consumer's ring position does not count the other's k-blocks
  kNoTurn,                   // ping-pong: no order between the two main loops
  kReleaseBeforeRead,        // a stage is released before the matrix instruction that reads it has ended
  kLocalRelease,             // cluster: a stage is released to the own producer only
  kRowColumnRelease,         // cluster of rows and columns: a stage is released to the own row and column only
  kNoClusterSync,            // cluster: CTAs leave one by one
  kPartialUnpublished,       // split-K: the partial sum is written after the arrival
  kOneStoreLater,    // split-K: the re-read leaves one group pending, though the item just done may have stored nothing
  kWaitForOwnImage,  // kept: waits for the image of the tile just published too
  kColumnsOverwritten,     // kept: the spare warp writes the next image's columns though the group may still read
  kColumnsOfAnotherImage,  // kept: a tile is finished with whatever columns the group holds
  kOneRunAnImage,          // kept: the spare warp takes an image's tiles for one run whatever their channels
  kColumnsNotReturned,     // kept: the group does not tell that it is done with an image's columns
  kStagingLoadedOver,      // kept: a spilled tile is loaded back over what a store may still read
  kGroupsCrossTiles,       // kept, by channels: columns wait for the statistics of all of the image's channels
  kLoadedParity,           // kept: waits for the tile loaded back with the same parity each time
  kLevelsShareEntries,     // rows, over rows: a level's entries lie where those of the level before do
  kNextLevelFirst,         // rows, over rows: waits for a level's entries before its own are written
  kEntryWithItsResult,     // rows that are deferred: a tile's entry is written when its own row is waited for
  kSharesWithTheirTile,    // rows that wait in memory: a tile's share is merged when its turn in the pass has come
  kColumnForAll,           // over rows: whoever completes a column of tiles merges the image
  kSegmentUncounted,       // over rows: a segment of a column is merged by each that comes to it, not by the last
};

// A grid of `ctas` CTAs, of a producer and consumer warpgroups each, that walks over
// images x tiles_m() x tiles_n x split_k work items in that order, by channels images x tiles_n x tiles_m().
struct Kernel {
  Mode mode = Mode::kResident;
  Schedule schedule = Schedule::kCooperative;
  Exchange exchange = Exchange::kCounters;
  int ctas = 1;  // the grid; in clusters of cluster_m * cluster_n
  int images = 1;
  int rows = 1, tile_rows = 1;  // rows of an image, and rows of a cluster's tile
  int tiles_n = 1;              // cluster tiles across the channels
  int split_k = 1;              // partners that share a tile's k range
  int levels = 1;               // rows, over rows: of reductions, each of which reads the results of the one before
  bool in_memory = false;       // rows, over rows: tiles wait in memory, a pass over them for each level
  bool deferred = false;        // rows: of one level; a tile waits for its row behind the next tile's main loop
  int segment_slots = 1;  // slots that are merged before the image is; with tags: of a segment; over rows: before a
                          // column is
  int warpgroups = 1;  // consumers: 1 or 2 if cooperative (each with its part of the rows); ping-pong: 2, or 4 in two
                       // groups of two
  int cluster_m = 1, cluster_n = 1;
  int k_blocks = 0;  // of the main loop; 0: the main loop takes no time and has no ring
  int stages = 2;
  int store_buffers = 1;       // staging buffers of a consumer
  bool ordered_store = false;  // ping-pong: warpgroups take turns at storing
  int window = 64;             // kept: tiles from the oldest unfinished one on whose order of finishing may be mixed
  bool by_channels = false;    // resident, kept: the tiles of some channels of an image wait for these alone
  int group_tiles = 1;         // resident, by channels: or for those of all tiles across that share a group of channels
                               // with them; as many as a group touches
  int main_loops = -1;         // clusters whose main loop is modelled (the others' take no time); -1: all
  Bug bug = Bug::kNone;

  int cluster_ctas() const { return cluster_m * cluster_n; }
  int clusters() const { return ctas / cluster_ctas(); }
  int consumers() const { return warpgroups; }
  int consumer_groups() const { return schedule == Schedule::kPingPong ? 2 : 1; }  // that take every other item
  int tiles_m() const { return (rows + tile_rows - 1) / tile_rows; }
  int items_per_image() const { return tiles_m() * tiles_n * split_k; }
  // From a tile to the last one, in the order, that it waits for, at most.
  int items_that_wait() const {
    return by_channels ? tiles_m() * (group_tiles < tiles_n ? group_tiles : tiles_n) : items_per_image();
  }
};

struct Launch {
  Kernel kernel;
  int stream = 0;
  int workspace = 0;  // slots, counters, flags, exits
  int output = 0;
  bool cooperative = true;    // all CTAs start together or none does
  bool programmatic = false;  // may start once all CTAs of its predecessor on the stream have started
  bool memset = false;        // not a kernel: sets the workspace's counters to zero
};

// Launches with a workspace after which its counters, and so the epochs, begin again; as in the kernels.
constexpr uint32_t kEpochs = 1 << 15;

struct Case {
  std::vector<Launch> launches;  // those of one stream in order
  int processors = 1;            // CTAs that fit on the chip at once
  uint32_t first_epoch = 0;      // of every workspace, as if so many launches had gone before; less than `epochs`
  uint32_t epochs = kEpochs;
};

// The condition under which a resident launch cannot deadlock: no warpgroup is dealt items of two tiles of which one
// waits for the other, by rows those of one image.
// By tags it must not be dealt two parts of one tile either, since the first part waits for the others.
inline bool resident_is_legal(const Kernel& kernel) {
  const int holders = kernel.clusters() * kernel.consumer_groups();
  const int at_once = kernel.exchange == Exchange::kTags ? 1 : kernel.split_k;
  return kernel.items_that_wait() <= holders || kernel.items_that_wait() == at_once;
}

// The same of rows: no warpgroup is dealt two tiles of one row of tiles, unless they wait in memory. Over rows: of one
// image.
inline bool rows_are_legal(const Kernel& kernel) {
  if (kernel.mode == Mode::kOverRows) return kernel.in_memory || resident_is_legal(kernel);
  return kernel.in_memory || kernel.tiles_n <= kernel.clusters() * kernel.consumer_groups() || kernel.tiles_n == 1;
}

// What the runtime launches where only `processors` CTAs fit: whole clusters, streamed (by tags: kept) if resident is
// not legal any more.
inline Kernel fit(Kernel kernel, int processors) {
  const int fitting = processors / kernel.cluster_ctas() * kernel.cluster_ctas();
  if (kernel.ctas > fitting) kernel.ctas = fitting;
  if (kernel.mode == Mode::kResident && !resident_is_legal(kernel)) {
    kernel.mode = kernel.exchange == Exchange::kTags ? Mode::kKept : Mode::kStreamed;
    kernel.ordered_store = false;
  }
  return kernel;
}

std::string to_string(const Case& c);

}  // namespace unisono::simulator
