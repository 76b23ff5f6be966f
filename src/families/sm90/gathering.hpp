#pragma once
/// Operands that TMA cannot load, and outputs that it cannot store: kernels/unisono/load/sm90_gather.cuh,
/// tile/tile_scheduler.cuh.

#include <cstdint>
#include <optional>
#include <set>

#include "plan/as_convolution.hpp"
#include "plan/refusal.hpp"

namespace unisono::families::sm90 {

/// Images by ordinary loads.
struct Gathering {
  bool vectors = false;       ///< channels of 16 bytes lie together, aligned
  bool rows_first_a = false;  ///< neighbours in memory are pixels: channels first, or A (k, m)
  bool filters = false;       ///< these, too, by ordinary loads
  bool rows_first_b = false;  ///< neighbours in memory are filters: B (k, n), transposed convolutions
  bool transposed = false;
  bool direct = false;  ///< nothing is staged: groups of few channels, without matrix instructions
                        ///< (kernels/unisono/load/direct.cuh)

  bool operator==(const Gathering&) const = default;
};

/// tma: rows of channels whose bytes are multiples of 16; plain: of any number of channels; planes: channels first, by
/// ordinary stores; planes_tma: the same by TMA, of eights of pixels.
enum class Stores : std::uint8_t { tma, plain, planes, planes_tma };

/// Results leave by TMA.
constexpr bool by_tma(Stores stores) { return stores == Stores::tma || stores == Stores::planes_tma; }

/// Why no kernel that loads by TMA serves the operands; nothing: some may.
std::optional<plan::Refusal> why_gathered(const plan::ConvTask& task);

/// Images and filters that lie channels first, NCHW and KCRS. Either TMA loads the image's planes as they lie, boxes of
/// 64 pixels by channels: where every output pixel is a product of its own input pixel.
bool loads_planes(const plan::ConvTask& task);
/// Or the launch converts both into its workspace, NHWC and KRSC of multiples of 8 channels, where TMA loads them
/// (kernels/unisono/load/sm90_from_planes.cuh): why it does not; nothing: it may.
std::optional<plan::Refusal> beyond_conversion(const plan::ConvTask& task);
/// Channels of what is converted.
std::int64_t converted_channels(const Conv2d& conv);

/// Why no kernel serves a convolution of volumes; nothing: those do that load it by im2col tiles.
std::optional<plan::Refusal> beyond_volumes(const plan::ConvTask& task);

/// Why a tile across the channels cannot be several groups, whose filters lie along a diagonal in shared memory
/// (kernels/unisono/load/sm90_group_filters.cuh); nothing: it can.
std::optional<plan::Refusal> beyond_group_tiles(const plan::ConvTask& task);

/// A transposed convolution of stride 1 by flipped taps, of groups of which a tile has several; nothing: it is none.
std::optional<plan::ConvTask> by_flipped_groups(const Contraction& contraction);

/// Output channels of the narrowest such tile, of which all widths are multiples, and of the widest. Its groups have
/// multiples of 8 channels and of 8 filters together, so that every tile begins at 16 bytes of a pixel. The task is
/// none that is beyond_group_tiles().
std::int64_t narrowest_group_tile(const Conv2d& conv);
std::int64_t widest_group_tile(const Conv2d& conv);
/// Adds the widest tile of several groups, and, for few channels or many CTAs, narrower ones.
void add_group_tiles(const Conv2d& conv, std::set<int>& widths);

Gathering gathering_of(const plan::ConvTask& task);

/// How results are stored whatever the plan: of planes, some plans have TMA.
Stores stores_of(const plan::ConvTask& task);

}  // namespace unisono::families::sm90
