#pragma once
/// Plans for one convolution and its epilogue on sm_90a: which tile, cluster, schedule and way of normalising.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "families/interface/override.hpp"
#include "families/interface/plan.hpp"
#include "families/sm90/gathering.hpp"
#include "families/sm90_conv/unfolding.hpp"
#include "plan/as_convolution.hpp"
#include "plan/device.hpp"
#include "plan/epilogue.hpp"
#include "plan/head.hpp"
#include "plan/resampling.hpp"
#include "unisono/contraction.hpp"

namespace unisono::plan {

/// What a kernel is compiled for: the fields of a configuration in kernels/unisono/sm90/conv_fprop.cuh. Two problems
/// with the same configuration and the same visitor share a kernel.
struct ConvConfig {
  DType element = DType::bf16;  ///< of both operands: bf16, f16, or tf32, which lies in memory as f32
  int tile_m = 128, tile_n = 128, tile_k = 64;
  int tile_warpgroups = 1, turns = 2;  ///< 2, 1: cooperative; 1, 2: ping-pong; 2, 2: ping-pong of pairs
  int stages = 4,
      stages_a =
          0;  ///< of filters (runs: of both operands); of activations (patches, windows, beside stationary filters)
  bool patch = false;          ///< activations by patches, 8 pixels wide and a halo, instead of runs of pixels
  int halo_h = 0, halo_w = 0;  ///< patches: (R - 1)·dilation lines, (S - 1)·dilation pixels
  int store_buffers = 1;
  int cluster_m = 1, cluster_n = 1;
  bool split = false;
  bool swap = false;  ///< operands swapped: filters first, so that channels are the rows of a matrix instruction
  NormMode mode = NormMode::none;
  bool wide = false;   ///< general: reductions over a row's channels span several tiles
  bool meets = false;  ///< and these wait for one another, since they read the results
  int unit = 1;        ///< channels of an entry of statistics: divides group width and tile_n; 1 without an exchange
  int group = 0;  ///< rows of (cluster) tiles that are worked on together, all their channels; 0: one after another
  bool columns_a = false, columns_b = false, batched = false;  ///< as in ConvTask; loaded by TMA
  /// All tiles of a block have the same channels, whose filters stay in shared memory: stages is the k-steps of a tile.
  bool stationary = false;
  bool rows_a = false;                   ///< runs of pixels are rows of a matrix: boxes of them are loaded, not im2col
  std::optional<Gathering> gather = {};  ///< activations by ordinary loads instead of runs or patches
  /// Pixels are patches, of any stride, whose rows the block unfolds of windows; filters stay in shared memory.
  std::optional<Unfolding> unfold = {};
  bool phases = false;  ///< ConvTask::phases: tiles across are those of each phase, one after another
  Stores stores = Stores::tma;
  Resampling resampling = {};
  HeadConfig head = {};
  std::optional<int> fetch = {};  ///< operands [m,n] that TMA brings; absent: there are none that it could
  int moments = 0;                ///< channels of an entry of the stored moments; 0: none are stored

  /// Elements of a k-step that one TMA box loads, at most the 128 bytes that a swizzle spans.
  int atom_k() const { return std::min(tile_k, static_cast<int>(128 / size_of(element))); }
  int atoms() const { return tile_k / atom_k(); }

  bool loads_patches() const { return patch && !unfold; }
  /// A warpgroup fills the stages.
  bool by_hand() const { return gather || unfold; }
  /// Tensor maps, or what stands in their place, behind ConvParams: of resampled stores, of phases of the output, then
  /// of fetched operands, then of the head.
  int further_maps() const { return (phases ? 6 : resampling.maps()) + fetch.value_or(0) + head.maps(); }

  /// Whether activations have stages of their own.
  bool two_rings() const { return loads_patches() || stationary; }

  bool operator==(const ConvConfig&) const = default;
};

/// Parts of the workspace, in bytes from its start; its memory must be zero before the first launch.
struct Workspace {
  std::size_t bytes = 0, exits = 0, slots = 0, teams = 0, flags = 0, partials = 0;
  std::size_t folds = 0, fold_results = 0, fold_rows = 0, fold_counters = 0;  ///< general; floats, then counters
};

/// One way to run one problem.
struct ConvPlan : families::Plan {
  ConvConfig config;
  int images = 0, rows = 0, tiles_m = 0, tiles_n = 0, tiles = 0, patches_across = 0, channel_blocks = 0, splits = 1;
  int slots_per_image = 0, team_slots = 1, teams_per_image = 0;
  Workspace workspace;
};

/// The convolution that a plan of this configuration runs.
ConvTask as_planned(const Contraction& contraction, const ConvConfig& config);

/// All fields of a configuration: as an override it leaves that one candidate.
Override override_of(const ConvConfig& config);

struct ConvCandidate {
  ConvPlan plan;
  std::string refusal;  ///< empty: legal
};

/// All candidates, legal ones first, the fastest predicted first. A transposed convolution that has phases runs by
/// them; the candidates without are listed only if none of those is legal, or the override says load=gather. None for
/// an override that names what these kernels do not have. Throws UserError for a contraction that is wrong and
/// Unsupported for one that no convolution kernel of this device can serve whatever the plan (dtype, groups, …).
std::vector<ConvCandidate> conv_candidates(const ConvTask& task, const Epilogue& epilogue, const Device& device,
                                           const Override& fixed = {});

/// "128x160/5+3 pingpong resident, 104 blocks, 229 KB": for logs and `unisono explain`.
std::string to_string(const ConvConfig& config);
std::string describe(const ConvPlan& plan);
/// Lines for `unisono explain`: what is multiplied and loaded how, why the plan has its mode.
std::string reasons(const ConvPlan& plan, const ConvTask& task, const Epilogue& epilogue, const Device& device);

std::string_view order_name(const ConvConfig& config);

}  // namespace unisono::plan
