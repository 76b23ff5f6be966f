
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "families/sm90/fields.hpp"
#include "families/sm90/gathering.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/conv.hpp"
#include "families/sm90_conv/elements.hpp"
#include "families/sm90_conv/fetching.hpp"

namespace unisono::families::sm90_conv {
namespace {

std::string kilobytes(std::size_t bytes) { return fmt::format("{} KB", (bytes + 512) / 1024); }

std::string ordinary_loads(const plan::ConvTask& task, const sm90::Gathering& g) {
  const auto why = sm90::why_gathered(task);
  if (g.direct)
    return fmt::format("every element from memory, without matrix instructions: {} of {} output channels", why->first(),
                       task.conv.k / task.conv.groups);
  // Why few channels that are gathered, since they are no multiple of 8, do not use im2col in shared memory
  const Conv2d& c = task.conv;
  const bool few = c.c <= 32 && c.c % 8 != 0 && c.groups == 1 && c.r * c.s > 1 && !task.transposed;
  const auto beyond = few ? beyond_explicit_im2col(task) : std::nullopt;
  return fmt::format("ordinary loads of {}{}{}{}", g.vectors ? "8 channels at once" : "single elements",
                     g.filters ? ", of the filters too" : "", why ? ": " + why->first() : "",
                     beyond ? "; no im2col in shared memory: " + beyond->first() : "");
}

std::string im2col_windows(const Im2colWindow& u, const ConvConfig& c) {
  return fmt::format(
      "windows of {} image rows of {} bytes, made an im2col matrix in shared memory: {} image rows of {} taps x {} "
      "channels, {} k-steps; filters stay there",
      u.window_lines(c.tile.m), u.pitch, u.lines, u.taps, u.channels, u.steps(c.tile.k));
}

/// One behind each level of reductions over rows that elements read, or of a row that has too many tiles.
std::size_t passes_over_spilled(const ConvConfig& c, const plan::Epilogue& e) {
  return static_cast<std::size_t>(std::ranges::count_if(e.levels(), [&](const plan::Stage& s) {
    return !s.over_rows().empty() || (c.spills_rows() && !s.rows().empty());
  }));
}

/// Whose rows statistics and reductions are over: of several images, all together or each.
struct Domain {
  bool several, all;
  std::string_view name() const { return all ? "all images" : several ? "an image" : "the image"; }
};

Domain domain_of(const plan::ConvTask& task, const plan::Epilogue& epilogue) {
  const bool several = extents(task.contraction()).images > 1;
  bool all = false;
  for (const plan::Stage& s : epilogue.levels())
    for (const plan::Statistics& d : s.statistics) all |= d.domain.rows && !d.domain.per_image;
  return {several, several && all};
}

std::string reason_of_general(const ConvPlan& p, const plan::Epilogue& epilogue, const Domain& domain) {
  std::size_t reductions = 0, stored = 0, returned = 0;
  for (const plan::Stage& s : epilogue.levels()) {
    reductions += s.rows().size() + s.groups().size();
    for (const plan::Statistics& d : s.over_rows()) returned += d.reductions().size();
  }
  for (const plan::Statistics& d : epilogue.folds()) stored += d.reductions().size();
  std::string text = "general: rows have their own values, elements know where they are";
  if (reductions > 0)
    text += fmt::format(
        "; {} reductions over a row's channels in {} passes over a tile{}", reductions, epilogue.levels().size(),
        p.config.wide() && p.config.meets()
            ? fmt::format(", exchanged by the {} tiles of a row", p.tiles_n * p.config.schedule.cluster.n)
        : p.config.wide() ? ", joined by the last tile of the row"
                          : "");
  if (returned > 0)
    text += fmt::format("; {} reductions over rows that elements read again, shared by the {} tiles of {}", returned,
                        std::int64_t{p.tiles_m} * p.tiles_n * (domain.all ? p.images : 1), domain.name());
  if (p.config.spills())
    text += fmt::format("; accumulators of tiles wait in memory as f32, read again in {} passes",
                        passes_over_spilled(p.config, epilogue));
  if (stored > 0)
    text += fmt::format("; {} reductions over rows, joined by the last tile of a column, in order", stored);
  return text;
}

std::string reason_of_spill(const StreamedStatistics& s) {
  std::string text;
  if (s.spill)
    text += fmt::format("; they wait as {}{}", to_string(*s.spill), s.wide ? ", in the place of the f32 result" : "");
  if (s.by_channels) text += "; tiles of the same channels follow one another";
  if (s.hints) text += "; L2 keeps them rather than operands and results";
  return text;
}

std::string reason_of_reductions(const plan::Epilogue& epilogue) {
  const std::size_t exchanged = epilogue.exchanging() ? epilogue.exchanging()->reductions().size() : 0;
  std::string text;
  if (exchanged > 0) text = fmt::format("; the statistics are {} reductions, which tiles exchange together", exchanged);
  std::size_t stored = 0;
  for (const plan::Statistics& d : epilogue.folds()) stored += d.reductions().size();
  if (stored > 0)
    text += fmt::format("; {} reductions over rows, joined by the last tile of a column, in order", stored);
  return text;
}

std::string reason_of_mode(const ConvPlan& p, const plan::Epilogue& epilogue, const Domain& domain) {
  const int image = p.tiles_m * p.tiles_n;
  const std::string_view whose = domain.all ? domain.name() : "an image";
  switch (p.config.mode()) {
    case sm90::NormMode::none: return "none: no normalisation, tiles are stored as they are finished";
    case sm90::NormMode::resident:
      if (p.config.by_channels())
        return fmt::format(
            "resident: tiles of the same channels follow one another, and those that share a group of channels are "
            "together in flight; accumulators wait in registers for {} statistics; stored once{}",
            domain.all ? "their" : "the image's", reason_of_reductions(epilogue));
      return fmt::format(
          "resident: {} together in flight, accumulators wait in registers for {} statistics; stored once{}",
          image * p.splits == 1 ? fmt::format("the one tile of {} is", whose)
          : p.splits == 1       ? fmt::format("all {} tiles of {} are", image, whose)
                                : fmt::format("all {} parts of the {} tiles of {} are", image * p.splits, image, whose),
          domain.all ? "their" : "the image's", reason_of_reductions(epilogue));
    case sm90::NormMode::streamed:
      return fmt::format(
          "streamed: the {} tiles of {} wait in shared memory while the next ones are multiplied, and in "
          "memory if {} not complete by then{}{}",
          image, whose, domain.all ? "those are" : "their image is", reason_of_spill(*p.config.streamed()),
          reason_of_reductions(epilogue));
    case sm90::NormMode::rows:
      if (p.config.rows_meet())
        return fmt::format(
            "rows: the {} tiles of a row, all in flight, exchange what each has of it, one statistic; accumulators "
            "wait in registers{}, stored once",
            p.tiles_n * p.config.schedule.cluster.n, p.config.deferred() ? " while the next tile is multiplied" : "");
      return "rows: a tile has all channels of its pixels, each is normalised by itself; nothing is exchanged, stored "
             "once";
    case sm90::NormMode::general: return reason_of_general(p, epilogue, domain);
  }
  return {};
}

std::string_view text_of(sm90::Stores stores) {
  switch (stores) {
    case sm90::Stores::tma: return "";
    case sm90::Stores::plain: return " plain stores";
    case sm90::Stores::planes: return " planes by elements";
    case sm90::Stores::planes_tma: return " planes";
  }
  return "";
}

std::string text_of(const EpilogueFeatures& f) {
  std::string text;
  if (f.resampling.any()) text += " " + to_string(f.resampling);
  if (f.fetch.value_or(0) > 0) text += fmt::format(" fetch {}x{}", *f.fetch, f.store_buffers);
  if (f.in_shared) text += " in shared memory";
  if (f.moments > 0) text += fmt::format(" statistics/{}", f.moments);
  return text;
}

/// Lines on what is channels first; none where nothing is.
std::string reason_of_planes(const ConvPlan& plan) {
  const ConvConfig& c = plan.config;
  std::string text;
  if (c.operands.converted)
    text += fmt::format(
        "planes: the launch converts the image and the filters to channels last, into {} of its workspace: {} of {} "
        "units of 64 pixels by 64 channels before the first tiles{}\n",
        kilobytes(plan.workspace.converted - plan.workspace.image), plan.conversion.ahead, plan.conversion.units,
        plan.conversion.ahead < plan.conversion.units ? ", the others during the multiplication" : "");
  if (c.features.stores == sm90::Stores::planes)
    text += fmt::format("stores: planes by elements: {}\n",
                        c.tile.n % 32 != 0
                            ? fmt::format("{} channels a tile; TMA takes multiples of 32, of halo tiles 16", c.tile.n)
                            : "TMA takes planes of multiples of 8 pixels, of halo tiles rows of these");
  return text;
}

}  // namespace

std::string to_string(const ConvConfig& c) {
  std::string text = fmt::format("{}x{}", c.tile.m, c.tile.n);
  if (c.tile.k != 64 && c.element != DType::tf32) text += fmt::format("x{}", c.tile.k);
  text += fmt::format("/{}", c.schedule.stages);
  if (c.two_dimensional() || c.schedule.stationary) text += fmt::format("+{}", c.activation_stages());
  text += fmt::format(" {}", to_string(c.schedule.order));
  if (c.schedule.cluster.ctas() > 1) text += fmt::format(" cluster {}x{}", c.schedule.cluster.m, c.schedule.cluster.n);
  if (c.schedule.split) text += " split";
  if (c.schedule.group > 0) text += fmt::format(" group {}", c.schedule.group);
  if (c.schedule.swap) text += " swap";
  if (c.schedule.stationary) text += " stationary";
  if (c.mode() != sm90::NormMode::none) text += fmt::format(" {}", to_string(c.mode()));
  text += c.deferred() ? " deferred" : c.spills() ? " spill f32" : "";
  const StreamedStatistics* s = c.streamed();
  if (s && s->spill) text += fmt::format(" spill {}", to_string(*s->spill));
  text += fmt::format("{}{}", c.by_channels() ? " by channels" : "", s && s->hints ? " hints" : "");
  if (c.element == DType::tf32) text += " tf32";
  if (c.loads(Im2colTile::Box::columns)) text += " A(k,m)";
  if (c.of_volumes()) text += " volumes";
  if (c.by_parity())
    text += " by parity";
  else if (c.operands.flipped)
    text += " flipped";
  else if (c.columns_b())
    text += " B(k,n)";
  if (c.operands.converted) text += fmt::format(" converted {} ahead", to_string(c.operands.ahead));
  if (c.operands.batched) text += " batched";
  if (c.operands.products > 1) text += " dual";
  if (c.operands.grouped()) text += fmt::format(" groups {}x{}", c.operands.group_channels, c.operands.group_filters);
  if (c.gathered() && c.gathered()->direct)
    text += " direct";
  else if (c.gathered())
    text += c.gathered()->filters ? " gather all" : " gather";
  text += text_of(c.features.stores);
  if (c.window()) text += " im2col_smem";
  return text + text_of(c.features);
}

std::string describe(const ConvPlan& p) {
  return fmt::format("{}, {} {}, {} CTAs of {} threads, {}", to_string(p.config), p.tiles,
                     p.splits > 1 ? fmt::format("tiles in {} parts", p.splits) : "tiles", p.ctas, p.threads,
                     kilobytes(p.shared_bytes));
}

std::string reasons(const ConvPlan& plan, const plan::ConvTask& task, const plan::Epilogue& epilogue) {
  const ConvConfig& c = plan.config;
  std::string text;
  if (c.element == DType::tf32) text += "products: of tf32 (f32 operands without their last 13 bits), added in f32\n";
  text += fmt::format(
      "loads: {}\n",
      c.gathered() ? ordinary_loads(task, *c.gathered())
      : c.window() ? im2col_windows(*c.window(), c)
      : c.loads(Im2colTile::Box::columns)
          ? std::string(task.conv.layout == Layout::nchw
                            ? "boxes of 64 pixels of planes, which are multiplied as they lie"
                            : "boxes of 64 columns of A")
      : c.halo()
          ? fmt::format(
                "halo tiles 8 pixels wide with a halo of {} image rows and {} pixels, one for all filter taps{}",
                c.halo()->halo_h, c.halo()->halo_w, c.halo()->of_plane ? " of a plane" : "") +
                (c.by_parity() ? std::string(", in each of the four parity phases of the output") : std::string())
      : c.loads(Im2colTile::Box::rows)   ? std::string("boxes of rows")
      : c.loads(Im2colTile::Box::voxels) ? std::string("im2col tiles that run through the planes of a volume, one for "
                                                       "every filter tap")
                                         : std::string("im2col tiles, one for every filter tap"));
  if (task.flipped) text += "filters: (C, R, S, K) as they lie, their taps in reverse\n";
  text += reason_of_planes(plan);
  if (c.operands.products > 1)
    text += fmt::format(
        "products: two of the same A; {} columns of either B side by side in a stage, one matrix "
        "instruction of {} for both\n",
        c.tile.n, c.multiplied_n());
  if (const Operands& o = c.operands; o.grouped())
    text += fmt::format("groups: {} of {} channels in a tile; their filters stay in shared memory, along a diagonal\n",
                        c.tile.n / o.group_filters, o.group_channels);
  text += fmt::format("mode: {}\n", reason_of_mode(plan, epilogue, domain_of(task, epilogue)));
  if (const std::string operands = describe_operands(c, sm90::make_problem(task, epilogue).value()); !operands.empty())
    text += fmt::format("operands [m,n]: {}\n", operands);
  text += describe_functions(c, epilogue);
  return text;
}

PlanOverride override_of(const ConvConfig& c) {
  const auto on = [](bool x) { return std::string(x ? "on" : "off"); };
  PlanOverride all;
  all.fields = {{"tile", fmt::format("{}x{}", c.tile.m, c.tile.n)},
                {"depth", fmt::format("{}", c.tile.k)},
                {"order", std::string(to_string(c.schedule.order))},
                {"load", c.window()            ? "im2col_smem"
                         : c.two_dimensional() ? "halo"
                         : c.gathered()        ? "gather"
                                               : "im2col"},
                {"stages", c.two_dimensional() || c.schedule.stationary
                               ? fmt::format("{}+{}", c.schedule.stages, c.activation_stages())
                               : fmt::format("{}", c.schedule.stages)},
                {"buffers", fmt::format("{}", c.features.store_buffers)},
                {"cluster", fmt::format("{}x{}", c.schedule.cluster.m, c.schedule.cluster.n)},
                {"split", on(c.schedule.split)},
                {"swap", on(c.schedule.swap)},
                {"stationary", on(c.schedule.stationary)},
                {"mode", std::string(to_string(c.mode()))},
                {"unit", fmt::format("{}", c.unit())}};
  if (c.mode() == sm90::NormMode::general) all.fields["epilogue"] = c.features.in_shared ? "shared" : "registers";
  if (c.features.fetch) all.fields["fetch"] = fmt::format("{}", *c.features.fetch);
  if (c.deferred()) all.fields["deferred"] = "on";
  if (c.spills()) all.fields["spill"] = "f32";
  if (const StreamedStatistics* s = c.streamed()) {
    if (s->spill) all.fields["spill"] = std::string(to_string(*s->spill));
    if (s->hints) all.fields["hints"] = "on";
  }
  if (c.by_channels()) all.fields["raster"] = "channels";
  if (c.operands.converted) all.fields["ahead"] = std::string(to_string(c.operands.ahead));
  if (c.schedule.group > 0)
    all.fields["group"] = fmt::format("{}", c.schedule.group);  // else none is what the planner makes of it
  return all;
}

}  // namespace unisono::families::sm90_conv
