#include "mma_family/mma_conv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>

#include "codegen/frame.hpp"
#include "families/sm90/parameters.hpp"
#include "mma_family/mma_kernel.hpp"

namespace unisono::mma {
namespace {

using namespace families;

constexpr std::size_t stage_bytes = std::size_t{2} * (tile_rows + tile_channels) * (tile_depth + 8);
constexpr std::size_t entry_bytes = sizeof(Entry), exit_bytes = 64;  // of the workspace

struct MmaPlan final : Plan {
  DType element = DType::bf16;
  bool normalises = false;
  int unit = tile_channels, images = 0, rows = 0, tiles_m = 0, tiles_n = 0;
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
  if (c.c % 8 != 0 || c.k % 2 != 0) return plan::because("channels: copies take eight of them, stores two");
  return std::nullopt;
}

std::optional<Refusal> refuse_epilogue(const plan::Epilogue& e) {
  if (e.general || e.second_pass) return plan::because("epilogue: more than elements and one normalisation");
  if (e.norm && (e.norm->batch || e.norm->per_pixel))
    return plan::because("epilogue: a normalisation that is not over the pixels of an image");
  if (e.resampled.any() || e.moments.channels > 0) return plan::because("epilogue: more is made of the store");
  if (e.wide_main()) return plan::because("epilogue: a store of 32 bits");
  return std::nullopt;
}

std::shared_ptr<MmaPlan> laid_out(const Workload& w) {
  auto p = std::make_shared<MmaPlan>();
  const Extents e = extents(w.task.contraction());
  const auto across = [](std::int64_t x, int tile) { return static_cast<int>((x + tile - 1) / tile); };
  p->element = w.task.conv.dtype_x;
  p->images = static_cast<int>(e.images), p->rows = static_cast<int>(e.rows_per_image());
  p->tiles_m = across(p->rows, tile_rows), p->tiles_n = across(e.cols, tile_channels);
  p->threads = threads;
  p->ctas = std::min(p->images * p->tiles_m * p->tiles_n, w.device.sms);
  p->normalises = w.epilogue.norm.has_value();
  if (p->normalises) {
    p->unit = static_cast<int>(std::gcd(w.epilogue.norm->group_channels, std::int64_t{tile_channels}));
    p->cooperative = true;
    p->workspace_bytes = exit_bytes + entry_bytes * p->images * p->tiles_m * (e.cols / p->unit);
  }
  p->pitched_image = p->pitched_output = false;
  return p;
}

/// FragmentEpilogue::kBytes
std::size_t epilogue_bytes(const MmaPlan& p, const plan::Epilogue& e) {
  const std::size_t late = 8;  // operands of factor and shift: more than any epilogue of the tests has
  const std::size_t columns = e.columns_before.size() + e.columns_after.size() + (p.normalises ? 1 + late : 0);
  const std::size_t statistics = std::max<std::size_t>(4 * tile_channels * 8, (tile_channels + 126) * 12);
  return columns * tile_channels * 4 + (p.normalises ? statistics : 0);
}

class MmaConv final : public Family {
 public:
  std::string_view name() const override { return "mma_conv"; }
  Capability capability() const override { return {.major = 8, .minor = 0, .and_later = true}; }

  std::optional<Refusal> can_implement(const Workload& w) const override {
    if (auto refusal = refuse_contraction(w.task)) return refusal;
    return refuse_epilogue(w.epilogue);
  }
  std::vector<Candidate> candidates(const Workload& w, const Override&) const override {
    const auto p = laid_out(w);
    p->family = this;
    p->shared_bytes = 2 * stage_bytes + epilogue_bytes(*p, w.epilogue);
    p->predicted_us = cost(*p, w);
    Candidate made{p};
    if (p->normalises && p->tiles_m * p->tiles_n > w.device.sms)
      made.refusal = plan::because(
          fmt::format("resident: {} tiles of an image, and {} CTAs in flight", p->tiles_m * p->tiles_n, w.device.sms));
    if (made.refusal) made.refusal->scope = Refusal::Scope::plan;
    return {made};
  }
  double cost(const Plan&, const Workload& w) const override {
    return 5 + flop(w.task.contraction()) / (100e6 * w.device.sms);
  }
  codegen::Kernel generate(const Plan& plan, const plan::Epilogue& epilogue,
                           const codegen::Options& options) const override {
    const MmaPlan& p = own(plan);
    const std::string config = fmt::format(
        "struct Config {{\n    using Element = {};\n    using Fragment = RowFragment<{}, {}>;\n"
        "    static constexpr Norm kNorm = Norm::{};\n    static constexpr int kUnit = {};\n}};\n",
        codegen::operand_tag(p.element), tile_rows, tile_channels, p.normalises ? "kResident" : "kNone", p.unit);
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
    if (!p.normalises) return;
    TileParams& t = to.at<Fixed>().tile;
    Entry* const slots = reinterpret_cast<Entry*>(base + exit_bytes);
    const auto width = static_cast<int>(epilogue.norm->group_channels);
    t.norm = {.slots = slots,
              .segments = slots,
              .slots_per_image = p.tiles_m,
              .segment_slots = 1,
              .segments_per_image = p.tiles_m,
              .group_channels = width,
              .by_group_channels = divisor(static_cast<u64>(width))};
    const auto ctas = static_cast<u32>(p.ctas);
    t.launch = {reinterpret_cast<u32*>(base), ctas * kEpochs - 1, divisor(ctas), 0};
  }

  std::string title(const Plan& plan) const override { return own(plan).normalises ? "mma.sync resident" : "mma.sync"; }
  std::string describe(const Plan& plan) const override {
    return fmt::format("{}, {} CTAs of {} threads", title(plan), plan.ctas, plan.threads);
  }
  std::string reasons(const Plan&, const Workload&) const override { return "loads: cp.async, two stages\n"; }
  Override override_of(const Plan&) const override { return {}; }
  std::string kind(const Plan&) const override { return "mma"; }
};

}  // namespace

const Family& mma_conv() {
  static const MmaConv family;
  return family;
}

}  // namespace unisono::mma
