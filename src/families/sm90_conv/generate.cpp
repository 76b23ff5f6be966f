#include "families/sm90_conv/generate.hpp"

#include <fmt/format.h>

#include "codegen/frame.hpp"
#include "codegen/pieces.hpp"
#include "families/sm90/fetchable.hpp"
#include "unisono/error.hpp"

namespace unisono::families::sm90_conv {

namespace {

std::string_view norm_name(sm90::NormMode mode) {
  switch (mode) {
    case sm90::NormMode::none: return "kNone";
    case sm90::NormMode::resident: return "kResident";
    case sm90::NormMode::streamed: return "kStreamed";
    case sm90::NormMode::rows: return "kRows";
    case sm90::NormMode::general: return "kGeneral";
  }
  throw InternalError("a mode of normalising without a name");
}

// A configuration and an epilogue that a planner would not put together
void check(const plan::Epilogue& e, const ConvConfig& c, const codegen::Options& options) {
  plan::Epilogue bound = e;
  bound.storage = options.storage;
  const auto fetched = sm90::fetchable_operands(bound);
  if (const int count = c.features.fetch.value_or(0);
      count > std::ssize(fetched) || (count > 0 && fetched != sm90::fetchable_operands(e)))
    throw InternalError(fmt::format("{} operands are fetched, planned for {} of 16 bits; {} are", count,
                                    sm90::fetchable_operands(e).size(), fetched.size()));
  if (e.general() != (c.mode() == sm90::NormMode::general))
    throw InternalError(
        fmt::format("an epilogue that is {}general, and mode {}", e.general() ? "" : "not ", norm_name(c.mode())));
  if (!e.ahead() == sm90::normalises(c.mode()) && !e.general())
    throw InternalError(
        fmt::format("an epilogue {} statistics, and mode {}", e.ahead() ? "with" : "without", norm_name(c.mode())));
  if (e.norm() && e.normalises_rows() != (c.mode() == sm90::NormMode::rows))
    throw InternalError(fmt::format("statistics over {}, and mode {}",
                                    e.normalises_rows() ? "the channels of a pixel" : "an image's pixels",
                                    norm_name(c.mode())));
  if (e.results == plan::Results::any && !e.exchanging() && c.mode() != sm90::NormMode::streamed &&
      c.mode() != sm90::NormMode::rows)
    throw InternalError(fmt::format("an epilogue for a second pass, and mode {}", norm_name(c.mode())));
  if (c.streamed() && c.streamed()->wide != e.wide_main())
    throw InternalError("an epilogue and a configuration that differ in the bits of the main store");
  if (e.uses_raw && c.mode() != sm90::NormMode::resident)
    throw InternalError(
        fmt::format("an epilogue that reads the normalisation's input again, and mode {}", norm_name(c.mode())));
  if (plan::resampling_of(e.resampled) != c.features.resampling)
    throw InternalError(fmt::format("an epilogue that is resampled as '{}', and a configuration as '{}'",
                                    to_string(plan::resampling_of(e.resampled)), to_string(c.features.resampling)));
  if ((e.moments.channels > 0) != (c.features.moments > 0) ||
      (c.features.moments > 0 && c.mode() != sm90::NormMode::none))
    throw InternalError(
        fmt::format("an epilogue that stores statistics of every {} channels, and one of every {}, mode {}",
                    e.moments.channels, c.features.moments, norm_name(c.mode())));
  if (const auto exchanged = e.exchanged(); exchanged && exchanged->group_channels % c.unit() != 0)
    throw InternalError(
        fmt::format("units of {} channels do not divide groups of {}", c.unit(), exchanged->group_channels));
}

std::string gathered_text(const ConvConfig& c) {
  const sm90::Gathering& g = *c.gathered();
  return fmt::format(
      "    struct Operands : Gathered<{}, {}> {{\n"
      "        static constexpr bool kVectors = {}, kRowsFirstA = {}, kGatherFilters = {}, kRowsFirstB = {}, "
      "kTransposed = {}, kDirect = {};\n"
      "    }};\n",
      c.columns_b(), c.operands.batched, g.vectors, g.rows_first_a, g.filters, g.rows_first_b, g.transposed, g.direct);
}

std::string im2col_smem_text(const Im2colWindow& u) {
  return fmt::format(
      "    struct Operands : Im2colSmem {{\n"
      "        static constexpr int kLines = {}, kTaps = {}, kChannels = {};\n"
      "        static constexpr int kStrideH = {}, kStrideW = {}, kDilationH = {}, kPitch = {}, kShift = {};\n"
      "    }};\n",
      u.lines, u.taps, u.channels, u.stride_h, u.stride_w, u.dilation_h, u.pitch, u.shift);
}

std::string_view stores_name(sm90::Stores stores) {
  switch (stores) {
    case sm90::Stores::tma: return "kTma";
    case sm90::Stores::plain: return "kPlain";
    case sm90::Stores::planes: return "kPlanes";
    case sm90::Stores::planes_tma: return "kPlanesTma";
  }
  throw InternalError("a way of storing without a name");
}

std::string resample_text(const plan::Resampling& r) {
  if (!r.any()) return "    using Resample = AsItIs;\n";
  return fmt::format("    using Resample = Resampled<{}, {}, {}>;  // only these, pooled, upsampled\n", r.only,
                     r.pooled, r.upsampled);
}

// How the operands lie in memory, and when filters may be loaded
std::string operands_text(const ConvConfig& c, bool filters_ahead) {
  if (c.gathered()) return gathered_text(c);
  if (c.window()) return im2col_smem_text(*c.window());
  const auto text = [&](const std::string& type, std::string_view about) {
    const std::string_view of = c.operands.converted                     ? "FromPlanes<"
                                : filters_ahead && c.tma_loads_filters() ? "FiltersAhead<"
                                                                         : "";
    return fmt::format("    using Operands = {}{}{};{}\n", of, type,
                       of.empty()             ? ""
                       : c.operands.converted ? (c.operands.beside() ? ", true>" : ", false>")
                                              : ">",
                       about);
  };
  if (c.by_parity() && !c.halo()->odd_h && !c.halo()->odd_w) return text("Phases", "");
  if (c.by_parity())
    return text(fmt::format("OddPhases<{}, {}>", c.halo()->odd_h, c.halo()->odd_w),
                "  // every other phase has fewer taps along the height, the width");
  if (c.operands.flipped && !c.operands.grouped())
    return text(c.loads(Im2colTile::Box::rows) ? "FlippedRows" : "Flipped",
                "  // filters (C, R, S, K), their taps in reverse");
  if (c.operands.grouped())
    return text(fmt::format("{}Groups<{}, {}>", c.operands.flipped ? "Flipped" : "", c.operands.group_channels,
                            c.operands.group_filters),
                "  // channels and filters of a group");
  using Box = Im2colTile::Box;
  if (c.of_volumes()) return "    using Operands = Volumes;\n";
  const bool columns_a = c.loads(Box::columns);
  if (c.operands.products > 1 && (c.halo() || c.loads(Box::pixels)))
    return "    using Operands = DualImages;  // two filters of the same image\n";
  if (c.operands.products > 1)
    return fmt::format(
        "    using Operands = DualMatrices<{}, {}, {}>;  // A is (k, m), both B are (k, n), two B for each A\n",
        columns_a, c.columns_b(), c.operands.batched);
  if (!columns_a && !c.columns_b() && !c.operands.batched && !c.loads(Box::rows)) return text("Images", "");
  return text(fmt::format("Matrices<{}, {}, {}>", columns_a, c.columns_b(), c.operands.batched),
              "  // A is (k, m), B is (k, n), one B for each A");
}

// Only what differs from the rule: tiles wait as the main store's elements, rows of tiles follow one another
std::string waiting_text(const ConvConfig& c) {
  const StreamedStatistics* s = c.streamed();
  return (s && s->spill ? fmt::format("    using Held = {};\n", codegen::element_name(*s->spill)) : "") +
         (c.cut() ? "    static constexpr bool kCut = true;\n" : "") +
         (c.by_channels() ? "    static constexpr bool kByChannels = true;\n" : "") +
         (s && s->hints ? "    static constexpr bool kHints = true;\n" : "");
}

// Every member of kernels/unisono/sm90/conv_config.cuh
std::string config_text(const ConvConfig& c, bool filters_ahead) {
  const HaloTile halo = c.halo() ? *c.halo() : HaloTile{};
  return fmt::format(
      "struct Config {{\n"
      "    using Element = {};\n"
      "    static constexpr int kTileM = {}, kTileN = {}, kTileK = {};\n"
      "    static constexpr int kTileWarpgroups = {}, kConsumerGroups = {}, kWarpgroupRows = {};\n"
      "    static constexpr int kStages = {}, kStagesA = {}, kHaloH = {}, kHaloW = {}, kStoreBuffers = {};\n"
      "    static constexpr int kClusterM = {}, kClusterN = {}, kGroup = {};\n"
      "    static constexpr bool kTwoDimensional = {}, kSplit = {}, kSwap = {}, kStationary = {};\n"
      "    static constexpr Norm kNorm = Norm::{};\n"
      "    static constexpr int kUnit = {}, kMoments = {}, kFetch = {};\n"
      "    static constexpr bool kWide = {}, kMeets = {};\n"
      "    static constexpr Stores kStores = Stores::{};\n"
      "{}}};\n",
      codegen::operand_tag(c.element), c.tile.m, c.tile.n, c.tile.k, c.schedule.warpgroups(),
      c.schedule.consumer_groups(), c.tile.m / c.schedule.warpgroups(), c.schedule.stages, c.activation_stages(),
      halo.halo_h, halo.halo_w, c.features.store_buffers, c.schedule.cluster.m, c.schedule.cluster.n, c.schedule.group,
      c.two_dimensional(), c.schedule.split, c.schedule.swap, c.schedule.stationary, norm_name(c.mode()), c.unit(),
      c.features.moments, c.features.fetch.value_or(0), c.wide(), c.meets(), stores_name(c.features.stores),
      waiting_text(c) + (c.spills() ? "    static constexpr bool kSpills = true;\n" : "") +
          (c.deferred() ? "    static constexpr bool kDeferred = true;\n" : "") +
          (c.spills_rows() ? "    static constexpr bool kSpillsRows = true;\n" : "") +
          (c.features.in_shared ? "    static constexpr bool kElementsInShared = true;\n" : "") +
          operands_text(c, filters_ahead) + resample_text(c.features.resampling));
}

}  // namespace

codegen::Kernel generate(const plan::Epilogue& epilogue, const ConvConfig& config, const codegen::Options& options) {
  check(epilogue, config, options);
  return codegen::framed(epilogue, options,
                         {.header = "unisono/sm90/conv_fprop.cuh",
                          .config = config_text(config, options.filters_ahead),
                          .kernel = "ConvFprop",
                          .minimum = "1"});
}

}  // namespace unisono::families::sm90_conv
