#pragma once
/// What a kernel of this family is compiled for: the fields of kernels/unisono/sm90/conv_config.cuh.

#include <algorithm>
#include <optional>
#include <string>

#include "families/sm90/fields.hpp"
#include "families/sm90/gathering.hpp"
#include "families/sm90_conv/loader.hpp"
#include "families/sm90_conv/statistics.hpp"
#include "plan/resampling.hpp"
#include "unisono/dtype.hpp"

namespace unisono::families::sm90_conv {

/// Pixels (rows of a matrix) by output channels, and elements of k in a step.
struct Tile {
  int m = 128, n = 128, k = 64;
  bool operator==(const Tile&) const = default;
};

/// CTAs along tiles of pixels by CTAs along tiles of channels.
struct Cluster {
  int m = 1, n = 1;
  int ctas() const { return m * n; }
  bool operator==(const Cluster&) const = default;
};

/// Which warpgroups and CTAs work on which tiles, and how far loads run ahead of them.
struct Schedule {
  sm90::Order order = sm90::Order::pingpong;
  Cluster cluster = {};
  int stages = 4;           ///< for filters, and for activations too where these have no ring of their own
  bool split = false;       ///< split-K
  bool swap = false;        ///< filters are the first operand: channels are the rows of a matrix instruction
  bool stationary = false;  ///< all tiles of a CTA have the same filters, which stay; `stages` is a tile's k-steps
  int group = 0;  ///< rows of (cluster) tiles that are worked on together, all their channels; 0: one after another

  int warpgroups() const { return warpgroups_of(order); }  ///< that share a tile
  int consumer_groups() const { return consumer_groups_of(order); }
  bool operator==(const Schedule&) const = default;
};

/// How operands lie in memory, where TMA loads them, beside what the loader says of activations.
struct Operands {
  bool columns_b = false;  ///< B is (k, n)
  bool flipped = false;    ///< B is (k, taps, n), of a transposed convolution of stride 1; its taps are read in reverse
  bool batched = false;    ///< there are as many filters as images
  int products = 1;        ///< 2: a stage has the tile's columns of two filters
  /// Channels and filters of a group, of which a tile has several; 0: there is one group, or a tile is of one.
  int group_channels = 0, group_filters = 0;
  bool grouped() const { return group_channels > 0; }
  bool converted = false;  ///< channels first, the image and the filters: the launch converts them into its workspace
  sm90::Ahead ahead = sm90::Ahead::balanced;  ///< how much of a converted image ahead of the tiles
  bool beside() const { return converted && ahead != sm90::Ahead::all; }  ///< spare warps convert the rest
  bool operator==(const Operands&) const = default;
};

/// What becomes of a finished tile.
struct EpilogueFeatures {
  int store_buffers = 1;
  sm90::Stores stores = sm90::Stores::tma;
  plan::Resampling resampling = {};
  std::optional<int> fetch = {};  ///< operands [m,n] that TMA loads; absent: there are none that it could
  bool in_shared = false;         ///< general: lanes take their elements from shared memory, eight channels each
  int moments = 0;                ///< channels of an entry of the stored mean and M2; 0: none are stored

  bool operator==(const EpilogueFeatures&) const = default;
};

/// Two problems with the same configuration and the same visitor share a kernel.
struct ConvConfig {
  DType element = DType::bf16;  ///< both operands': bf16, f16, or tf32, which lies in memory as f32
  Tile tile = {};
  Schedule schedule = {};
  Loader loader = {};
  Operands operands = {};
  Statistics statistics = {};
  EpilogueFeatures features = {};

  /// The loader, if it is this one; else null.
  const Im2colTile* im2col() const { return std::get_if<Im2colTile>(&loader); }
  const HaloTile* halo() const { return std::get_if<HaloTile>(&loader); }
  const sm90::Gathering* gathered() const { return std::get_if<sm90::Gathering>(&loader); }
  const Im2colWindow* window() const;

  bool loads(Im2colTile::Box box) const { return im2col() && im2col()->box == box; }
  bool by_parity() const { return halo() && halo()->by_parity; }
  /// TMA loads boxes of 64 columns of the filters.
  bool columns_b() const { return operands.columns_b || (operands.flipped && !operands.grouped()) || by_parity(); }
  /// A tile is 8 pixels wide and some image rows high; else its pixels follow one another.
  bool two_dimensional() const { return std::holds_alternative<HaloTile>(loader) || window(); }
  /// The producer's warps fill the stages instead of TMA.
  bool filled_by_warps() const { return gathered() || window(); }
  /// TMA loads the filters, of which every image has the same ones.
  bool tma_loads_filters() const {
    return !filled_by_warps() && !operands.converted && !operands.grouped() && !operands.batched &&
           operands.products == 1 && !of_volumes();
  }
  bool of_volumes() const { return loads(Im2colTile::Box::voxels) || (halo() && halo()->of_plane); }
  /// Activations have a ring of stages of their own, which TMA fills.
  bool two_rings() const { return halo() || schedule.stationary; }
  /// The loader's own stages; 0 if it has none.
  int activation_stages() const;
  void set_activation_stages(int stages);

  sm90::NormMode mode() const { return mode_of(statistics); }
  int unit() const;          ///< channels of a message of the exchanged statistics; 1 without an exchange
  bool cut() const;          ///< but of what a tile and a group share; false without an exchange
  bool by_channels() const;  ///< tiles of the same channels of an image follow one another, and wait for no others
  int floats() const;        ///< in such a message; 0 without an exchange
  const ResidentStatistics* resident() const { return std::get_if<ResidentStatistics>(&statistics); }
  const StreamedStatistics* streamed() const { return std::get_if<StreamedStatistics>(&statistics); }
  bool wide() const;         ///< what is reduced over a row's channels spans several tiles
  bool spills() const;       ///< general: accumulators wait in the workspace
  bool spills_rows() const;  ///< for what is reduced of a row, too
  bool meets() const;        ///< tiles of such a row wait for one another
  bool rows_meet() const;    ///< those of a normalisation
  bool deferred() const;     ///< they do so after the next tile's main loop

  /// Columns of both products that a matrix instruction multiplies.
  int multiplied_n() const { return operands.products * tile.n; }
  /// Elements of a k-step that one TMA box loads, at most the 128 bytes that a swizzle spans.
  int atom_k() const { return std::min(tile.k, static_cast<int>(128 / size_of(element))); }
  int atoms() const { return tile.k / atom_k(); }
  /// Tensor maps, or what stands in their place, behind ConvParams: of resampled stores, or of phases of the output,
  /// then of fetched operands, then of a second filter, or the PlanesToConvert. See
  /// kernels/unisono/params/sm90_kernel_params.cuh.
  int further_maps() const;
  int resampled_maps() const;

  bool operator==(const ConvConfig&) const = default;
};

/// "128x160/5+3 pingpong resident": for logs and `unisono explain`.
std::string to_string(const ConvConfig& config);

/// All fields of a configuration: as an override it leaves that one candidate.
PlanOverride override_of(const ConvConfig& config);

}  // namespace unisono::families::sm90_conv
