#include "mma_family/mma_conv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>

#include "codegen/frame.hpp"
#include "families/sm90/parameters.hpp"
#include "mma_family/mma_kernel.hpp"
#include "plan/visitor_shape.hpp"
#include "unisono/params/fragment_layout.cuh"

namespace unisono::mma {
namespace {

using namespace families;

constexpr std::size_t stage_bytes = std::size_t{2} * (tile_rows + tile_channels) * (tile_depth + 8);
constexpr std::size_t entry_bytes = sizeof(Entry);

/// Where the workspace has what, in bytes.
struct Workspace {
  std::size_t exits = 0, slots = 0, partials = 0, results = 0, rows = 0, counters = 0;
};

struct MmaPlan final : Plan {
  DType element = DType::bf16;
  std::string_view mode = "kNone";  ///< a Norm
  bool wide = false, meets = false;
  int unit = tile_channels, together = 1, images = 0, rows = 0, tiles_m = 0, tiles_n = 0;
  int at_once = 1;  ///< tiles that wait for one another
  Workspace workspace;
};

const MmaPlan& own(const Plan& plan) { return dynamic_cast<const MmaPlan&>(plan); }

std::optional<Refusal> refuse_contraction(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  if (t.transposed || t.volume || t.gradient || t.columns_a || t.columns_b || t.batched || t.products != 1 ||
      !t.group_rows.empty())
    return plan::because("contraction: no convolution of images by one filter");
  if (c.groups != 1 || c.layout != Layout::nhwc) return plan::because("contraction: groups, or channels first");
  if ((c.dtype_x != DType::bf16 && c.dtype_x != DType::f16) || c.dtype_x != c.dtype_w)
    return plan::because("types: mma.sync multiplies bf16 by bf16, or f16 by f16");
  if (c.c % 8 != 0) return plan::because("channels: copies take eight of them");
  return std::nullopt;
}

std::optional<Refusal> refuse_epilogue(const plan::Epilogue& e, std::int64_t channels) {
  if (e.results == plan::Results::any && !e.norm()->per_pixel)
    return plan::because("epilogue: a second pass over tiles that wait");
  if (e.norm() && !e.folds().empty())
    return plan::because("epilogue: reductions that are stored beside a normalisation");
  if (e.norm() && e.norm()->batch) return plan::because("epilogue: a normalisation over the pixels of all images");
  if (e.resampled.any() || e.moments.channels > 0) return plan::because("epilogue: more is made of the store");
  if (e.wide_main() && !e.general() && e.results != plan::Results::any)
    return plan::because("epilogue: a store of 32 bits");
  if (e.results == plan::Results::any && channels % 2 != 0)
    return plan::because("channels: results of rows are stored in pairs");
  for (const int width : plan::visitor_shape(e).group_widths)
    if (channels > tile_channels && tile_channels % width != 0)
      return plan::because("epilogue: groups of a row's channels that tiles divide");
  return std::nullopt;
}

void choose_mode(MmaPlan& p, const plan::Epilogue& e, const plan::VisitorShape& v) {
  if (e.general()) {
    p.mode = "kGeneral", p.wide = e.reduces_rows() && p.tiles_n > 1;
    p.meets = (p.wide && e.rows_wait()) || v.returns;
    if (p.meets) p.at_once = v.returns ? p.tiles_n * p.tiles_m * (v.returns_all ? p.images : 1) : p.tiles_n;
  } else if (e.norm() && e.norm()->per_pixel) {
    p.mode = "kRows", p.wide = p.meets = p.tiles_n > 1, p.at_once = p.tiles_n;
  } else if (e.norm()) {
    p.mode = "kResident", p.at_once = p.tiles_n * p.tiles_m;
    p.unit = static_cast<int>(std::gcd(e.norm()->group_channels, std::int64_t{tile_channels}));
  }
  p.cooperative = p.meets || p.mode == "kResident";
}

/// As epilogue/folds.cuh and exchange/ find them.
void lay_out_workspace(MmaPlan& p, const plan::VisitorShape& v, std::int64_t channels) {
  const auto take = [&](std::size_t bytes) {
    const std::size_t at = p.workspace_bytes;
    p.workspace_bytes += (bytes + 15) / 16 * 16;
    return at;
  };
  Workspace& w = p.workspace;
  const std::size_t images = p.images, across = p.tiles_n, slots = images * p.tiles_m, wide = across * tile_channels;
  if (p.cooperative) w.exits = take(8);
  if (p.mode == "kResident") w.slots = take(entry_bytes * slots * (static_cast<std::size_t>(channels) / p.unit));
  if (p.mode == "kGeneral" && (p.wide || v.own_words + v.tile_folds > 0)) {
    const std::size_t planes = v.fold_planes + v.returned_planes, tiles = v.tile_folds;
    w.partials = take((planes * slots * wide + tiles * slots * across) * 4);
    w.results = take((planes * wide + tiles * across) * images * 4);
    w.counters =
        take((images * across + slots + 1 + (v.returns ? v.returned_levels * (images * (across + 1) + 1) : 0)) * 4);
  }
  if (p.wide || v.returns) {
    const std::size_t lines = slots * tile_rows, entries = p.mode == "kRows" ? 1 : v.row_entries;
    w.rows = take((p.meets ? entries * lines * (across + 1) * entry_bytes : lines * across * 4 * v.row_folds) +
                  v.returned_entries * images * wide * entry_bytes);
  }
}

std::shared_ptr<MmaPlan> laid_out(const Workload& w) {
  auto p = std::make_shared<MmaPlan>();
  const Extents e = extents(w.task.contraction());
  const plan::VisitorShape shape = plan::visitor_shape(w.epilogue);
  const auto across = [](std::int64_t x, int tile) { return static_cast<int>((x + tile - 1) / tile); };
  p->element = w.task.conv.dtype_x;
  p->images = static_cast<int>(e.images), p->rows = static_cast<int>(e.rows_per_image());
  p->tiles_m = across(p->rows, tile_rows), p->tiles_n = across(e.cols, tile_channels);
  p->together = e.cols % 2 == 0 ? 2 : 1;
  p->threads = threads;
  p->ctas = std::min(p->images * p->tiles_m * p->tiles_n, w.device.sms);
  choose_mode(*p, w.epilogue, shape);
  lay_out_workspace(*p, shape, e.cols);
  p->pitched_image = p->pitched_output = false;
  return p;
}

/// FragmentEpilogue::kBytes
std::size_t epilogue_bytes(const MmaPlan& p, const plan::VisitorShape& v) {
  int places = 0;
  for (const int width : v.group_widths) places += (tile_channels + width - 1) / width;
  const shared_layout::Bytes folds = p.mode != "kGeneral"
                                         ? 0
                                         : shared_layout::fold_bytes(v.own_words, tile_channels, v.tile_folds) +
                                               (places == 0 ? 0 : shared_layout::group_bytes(places, tile_rows));
  return static_cast<std::size_t>(shared_layout::fragment_layout({.tile_n = tile_channels,
                                                                  .exchanges = p.mode == "kResident",
                                                                  .by_rows = p.mode == "kRows",
                                                                  .columns_before = v.columns_before,
                                                                  .columns_after = v.columns_after,
                                                                  .late_words = v.late_words,
                                                                  .folds = folds},
                                                                 sizeof(float) * 3)
                                      .bytes);
}

class MmaConv final : public Family {
 public:
  std::string_view name() const override { return "mma_conv"; }
  Capability capability() const override { return {.major = 8, .minor = 0, .and_later = true}; }

  std::optional<Refusal> can_implement(const Workload& w) const override {
    if (auto refusal = refuse_contraction(w.task)) return refusal;
    return refuse_epilogue(w.epilogue, w.task.conv.k);
  }
  std::vector<Candidate> candidates(const Workload& w, const PlanOverride&) const override {
    std::vector<Candidate> all{candidate(w, 0)};
    for (std::size_t i = 1; i < w.forms.size(); ++i)  // rows: fewer passes over a tile's sums
      if (const plan::Epilogue& e = w.forms[i]; e.norm() && e.norm()->per_pixel && !refuse_epilogue(e, w.task.conv.k))
        all.insert(all.begin(), candidate({w.task, e, w.device}, i));
    std::stable_partition(all.begin(), all.end(), [](const Candidate& c) { return c.is_legal(); });
    return all;
  }
  Candidate candidate(const Workload& w, std::size_t form) const {
    const auto p = laid_out(w);
    p->family = this;
    p->form = form;
    p->shared_bytes = 2 * stage_bytes + epilogue_bytes(*p, plan::visitor_shape(w.epilogue));
    p->predicted_us = cost(*p, w);
    Candidate made{p};
    if (p->at_once > w.device.sms)
      made.refusal = plan::because(
          fmt::format("resident: {} tiles wait for one another, and {} CTAs in flight", p->at_once, w.device.sms));
    if (made.refusal) made.refusal->scope = Refusal::Scope::plan;
    return made;
  }
  double cost(const Plan& plan, const Workload& w) const override {
    const double passes = own(plan).mode == "kGeneral" ? 2 : 1;  // over a tile's sums
    return 5 + passes + flop(w.task.contraction()) / (100e6 * w.device.sms);
  }
  codegen::Kernel generate(const Plan& plan, const plan::Epilogue& epilogue,
                           const codegen::Options& options) const override {
    const MmaPlan& p = own(plan);
    const std::string config = fmt::format(
        "struct Config {{\n    using Element = {};\n    using Fragment = RowFragment<{}, {}>;\n"
        "    static constexpr Norm kNorm = Norm::{};\n    static constexpr int kUnit = {}, kTogether = {};\n"
        "    static constexpr bool kWide = {}, kMeets = {};\n}};\n",
        codegen::operand_tag(p.element), tile_rows, tile_channels, p.mode, p.unit, p.together, p.wide, p.meets);
    return codegen::framed(epilogue, options,
                           {.header = "unisono/mma/fragments.cuh>\n#include <unisono/ptx/grid.cuh>\n#include "
                                      "<unisono/ptx/shared.cuh>\n#include <unisono/epilogue/fragment_epilogue.cuh",
                            .config = config + kernel_text,
                            .kernel = "MmaConv",
                            .minimum = "1"});
  }

  plan::Expected<std::size_t> parameter_bytes(const Plan&, const codegen::Kernel& kernel) const override {
    return sizeof(Fixed) + 8 * std::max<std::size_t>(1, kernel.fields.size());  // an empty struct has a size too
  }
  ParameterBytes constants(const Plan& plan, const Launched& what) const override {
    const MmaPlan& p = own(plan);
    const Conv2d& c = what.task.conv;
    ParameterBytes bytes;
    Fixed& f = bytes.at<Fixed>();
    ConvGeometry& g = f.tile.geometry;
    g = sm90::common_geometry(what.task);
    g.images = p.images, g.rows = p.rows;
    g.tiles_m = p.tiles_m, g.tiles_n = p.tiles_n, g.tiles = p.images * p.tiles_m * p.tiles_n;
    g.taps_h = static_cast<int>(c.r), g.taps_w = static_cast<int>(c.s);
    set_divisors(g, 0);
    f.height = static_cast<int>(c.h), f.width = static_cast<int>(c.w), f.channels = static_cast<int>(c.c);
    f.taps_w = static_cast<int>(c.s);
    return bytes;
  }
  void fill(Parameter& to, const Plan&, const Launched&, const Tensors& at) const override {
    to.put_address(offsetof(Fixed, image), at.activation);
    to.put_address(offsetof(Fixed, filter), at.filter);
    to.put_address(offsetof(TileParams, output), at.output);
    to.put_address(offsetof(TileParams, side), at.side);
    to.put_fields(sizeof(Fixed), at.fields);
  }
  void place_workspace(ParameterBytes& to, const Plan& plan, const plan::Epilogue& epilogue,
                       std::uint64_t base) const override {
    const MmaPlan& p = own(plan);
    TileParams& t = to.at<Fixed>().tile;
    const Workspace& w = p.workspace;
    const auto floats = [&](std::size_t at) { return reinterpret_cast<float*>(base + at); };
    if (epilogue.norm()) {
      Entry* const slots = reinterpret_cast<Entry*>(base + w.slots);
      const auto width = static_cast<int>(epilogue.norm()->group_channels);
      t.norm = {.slots = slots,
                .segments = slots,
                .slots_per_image = p.tiles_m,
                .segment_slots = 1,
                .segments_per_image = p.tiles_m,
                .group_channels = width,
                .by_group_channels = divisor(static_cast<u64>(width))};
    }
    t.folds = {floats(w.partials), floats(w.results), floats(w.rows), reinterpret_cast<u32*>(base + w.counters)};
    const auto ctas = static_cast<u32>(p.ctas);
    t.launch = {reinterpret_cast<u32*>(base + w.exits), ctas * kEpochs - 1, divisor(ctas), 0};
  }

  std::string title(const Plan& plan) const override {
    const MmaPlan& p = own(plan);
    const auto name = p.mode == "kResident"  ? " resident"
                      : p.mode == "kRows"    ? " rows"
                      : p.mode == "kGeneral" ? " general"
                                             : "";
    return fmt::format("mma.sync{}", name);
  }
  std::string describe(const Plan& plan) const override {
    return fmt::format("{}, {} CTAs of {} threads", title(plan), plan.ctas, plan.threads);
  }
  std::string reasons(const Plan&, const Workload&) const override { return "loads: cp.async, two stages\n"; }
  PlanOverride override_of(const Plan&) const override { return {}; }
  std::string kind(const Plan&) const override { return "mma"; }
};

}  // namespace

const Family& mma_conv() {
  static const MmaConv family;
  return family;
}

}  // namespace unisono::mma
