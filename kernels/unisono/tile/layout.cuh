// How the operands of a contraction lie in memory and are loaded. A configuration says so by a type `Operands`.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

struct Images {  // NHWC and KRSC: both have their k side by side
  static constexpr bool kColumnsA = false, kColumnsB = false, kBatched = false, kRowsA = false, kGather = false,
                        kGatherFilters = false, kDirect = false, kPhases = false, kIm2colSmem = false, kGrouped = false,
                        kFiltersAhead = false, kVolumes = false, kFromPlanes = false, kFlipped = false, kOddH = false,
                        kOddW = false;
  static constexpr int kProducts = 1, kSlotsBeside = 0;
  // The first channel of the image that filters from k on read.
  static UNISONO_DEVICE int first_channel(int) { return 0; }
};

// The loads of products, and of 1x1 convolutions that are products. kColumnsA: A is (k, m), kColumnsB: B is (k, n);
// each is loaded by boxes of 64 columns and multiplied MN-major. Else A is loaded by boxes of rows. kBatched: as many
// filters B as images A; tiles do not straddle images.
template <bool kOfA, bool kOfB, bool kEach>
struct Matrices : Images {
  static constexpr bool kColumnsA = kOfA, kColumnsB = kOfB, kBatched = kEach, kRowsA = !kOfA;
};

// Two products of the same A: a stage has kTileN columns of the one B, then those of the other, whose map is the last
// after ConvParams; one matrix instruction multiplies both. A tile's accumulators are those of the first product, then
// those of the second, so that a thread has both of an element.
template <bool kOfA, bool kOfB, bool kEach>
struct DualMatrices : Matrices<kOfA, kOfB, kEach> {
  static constexpr int kProducts = 2;
};

// Two filters of the same images, likewise: a stage, or a tap of a halo tile, has kTileN filters of either.
struct DualImages : Images {
  static constexpr int kProducts = 2;
};

// Volumes, NDHWC and KTRSC (load/sm90_volumes.cuh). The planes of a volume are one image, one below the other, to all
// but the loads, and statistics are those of a volume. An im2col tile runs through the borders between planes, a halo
// tile lies in one of them (PlaneRows of tile/tile_scheduler.cuh).
struct Volumes : Images {
  static constexpr bool kVolumes = true;
};

// A transposed convolution of stride 2 by its output's four phases: one of each two image rows, and of each two pixels
// of an image row (tile/tile_scheduler.cuh). A phase is a convolution of stride 1 with its own taps, every other one of
// the filter (C, R, S, K), whose channels k lie together. Halo tiles only. Along an axis output pixel 2 y + i takes tap
// f of input pixel y + (i + pad - f) / 2, where that is whole: taps of the parity of i + pad. All phases run as many
// taps, the largest f first; what is beyond the filter is zero. Six maps stand after ConvParams: phases 1 to 3 of the
// main store, then those of the second.
struct Phases : Images {
  static constexpr bool kColumnsB = true, kPhases = true;
};

// The same of filters of an odd number of taps along an axis: there every other phase has a tap less than the others,
// its first (VoidTaps of tile/tile_scheduler.cuh). A stage goes by for it without operands, and so do those of the
// image for a tile of a phase without any.
template <bool kH, bool kW>
struct OddPhases : Phases {
  static constexpr bool kOddH = kH, kOddW = kW;
};

// A transposed convolution of stride 1, such as the gradient of a convolution's input: a convolution by the filter's
// taps in reverse. The filter is (C, R, S, K), as that convolution has it: boxes of 64 of its channels k, of one tap,
// by the channels c of an atom, which are multiplied MN-major.
struct Flipped : Images {
  static constexpr bool kColumnsB = true, kFlipped = true;
};
// The same of one tap, where each output pixel is a product of one input pixel: A by boxes of rows.
struct FlippedRows : Flipped {
  static constexpr bool kRowsA = true;
};

// Images by ordinary loads (load/sm90_gather.cuh). A configuration adds, in a struct derived from this one:
//   kVectors                  eight channels lie together, aligned
//   kRowsFirstA, kRowsFirstB  neighbours in memory are rows and not k, of either operand
//   kGatherFilters            filters, too; else by TMA: (filters, k), or (k, filters) if kOfB
//   kTransposed               the transposed convolution
//   kDirect                   nothing is staged, nor multiplied by matrix instructions (load/direct.cuh)
template <bool kOfB, bool kEach>
struct Gathered : Matrices<false, kOfB, kEach> {
  static constexpr bool kGather = true;
};

// Images of few channels, by im2col in shared memory (load/sm90_explicit_im2col.cuh); filters by ordinary loads. A
// configuration adds
//   kLines, kTaps, kChannels           of a filter: R, S, C
//   kStrideH, kStrideW, kDilationH     taps of a filter row are neighbours
//   kPitch, kShift                     bytes from an image row of the window to the next; elements of it before the
//   first
//                                      tap
// and says by kStagesA how many windows there are. Its tiles are two-dimensional (kTwoDimensional), whatever the
// stride.
struct Im2colSmem : Images {
  static constexpr bool kIm2colSmem = true, kGatherFilters = true;
};

// Convolutions of groups: kChannels of C are multiplied by kFilters of K. A tile across the channels is several groups,
// whose channels of the image TMA loads together, and whose filters are blocks along a diagonal in shared memory, zeros
// next to them (load/sm90_group_filters.cuh).
template <int kChannels, int kFilters>
struct Groups : Images {
  static constexpr bool kGrouped = true, kGatherFilters = true;
  static constexpr int kGroupChannels = kChannels, kGroupFilters = kFilters;
  static UNISONO_DEVICE int first_channel(int k) { return k / kGroupFilters * kGroupChannels; }
};

// The same of a transposed convolution of stride 1: the filter is (C, R, S, kFilters), its taps are read in reverse.
template <int kChannels, int kFilters>
struct FlippedGroups : Groups<kChannels, kFilters> {
  static constexpr bool kFlipped = true;
};

// Operands whose filters no launch of the stream, or of the graph, writes: TMA loads those of the first stages before
// the launches ahead have ended (load/sm90_filters_ahead.cuh).
template <class Of>
struct FiltersAhead : Of {
  static constexpr bool kFiltersAhead = true;
};

// Operands that lie channels first, NCHW and KCRS, and are converted into the workspace: load/sm90_from_planes.cuh. The
// PlanesToConvert is the last after ConvParams. Some of it next to the tiles, or all before them.
template <class Of, bool kBesideTiles>
struct FromPlanes : Of {
  static constexpr bool kFromPlanes = true;
  static constexpr int kSlotsBeside = kBesideTiles ? 3 : 0;
};

}  // namespace unisono
