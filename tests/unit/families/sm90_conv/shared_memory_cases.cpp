// Writes CUDA C++ that asserts, for configurations and visitors of all kinds, that the device headers need the shared
// memory that the plan reckons with; and that generated visitors are of the shape it takes them to have. usage:
// shared_memory_cases OUTPUT

#include <fmt/format.h>
#include <algorithm>

#include <fstream>
#include <iostream>

#include "codegen/codegen.hpp"
#include "families/sm90_conv/generate.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

constexpr const char* head = R"(#include "unisono/sm90/conv_fprop.cuh"
#include "unisono/epilogue/math.cuh"
#include "unisono/epilogue/operands.cuh"
using namespace unisono;
template <int kBefore, int kAfter, int kLate, SideStore kStore> struct Visitor {
    using Output = Bf16;
    using Side = Bf16;
    struct Params { const float* pointer; };
    struct Uniform {};
    struct Late { float value[kLate]; };
    static constexpr SideStore kSide = kStore;
    static constexpr int kColumnsBefore = kBefore, kColumnsAfter = kAfter, kTensorsBefore = 0, kTensors = 3;
    template <int i> static UNISONO_DEVICE auto tensor(const Params& p) { return TensorSource<Bf16>{p.pointer}; }
    static constexpr bool kRaw = false, kStatistics = false;
};
template <int kBefore, int kAfter, SideStore kStore> struct Visitor<kBefore, kAfter, 0, kStore> : Visitor<kBefore, kAfter, 1, kStore> {
    struct Late {};
};
)";

std::string_view norm(NormMode m) {
  switch (m) {
    case NormMode::none: return "kNone";
    case NormMode::resident: return "kResident";
    case NormMode::rows: return "kRows";
    default: return "kStreamed";
  }
}

std::string operands(const ConvConfig& c) {
  if (c.by_parity()) return fmt::format("using Operands = OddPhases<{}, {}>;", c.halo()->odd_h, c.halo()->odd_w);
  if (c.operands.flipped) return "using Operands = Flipped;";
  if (const Im2colWindow* u = c.window())
    return fmt::format(
        "struct Operands : Im2colSmem {{ static constexpr int kLines = {}, kTaps = {}, kChannels = {}, kStrideH = {}, "
        "kStrideW = {}, kDilationH = {}, kPitch = {}; }};",
        u->lines, u->taps, u->channels, u->stride_h, u->stride_w, u->dilation_h, u->pitch);
  if (const Operands& o = c.operands; o.grouped())
    return fmt::format("using Operands = Groups<{}, {}>;", o.group_channels, o.group_filters);
  if (c.operands.products > 1)
    return fmt::format("using Operands = DualMatrices<{}, {}, {}>;", c.loads(Im2colTile::Box::columns), c.columns_b(),
                       c.operands.batched);
  if (!c.gathered())
    return fmt::format("using Operands = Matrices<{}, {}, {}>;", c.loads(Im2colTile::Box::columns), c.columns_b(),
                       c.operands.batched);
  return fmt::format(
      "struct Operands : Gathered<{}, {}> {{ static constexpr bool kGatherFilters = {}, kDirect = {}; }};",
      c.columns_b(), c.operands.batched, c.gathered()->filters, c.gathered()->direct);
}

std::string config_text(const ConvConfig& c, int number) {
  const HaloTile halo = c.halo() ? *c.halo() : HaloTile{};
  return fmt::format(
      "struct Config{} {{\n"
      "    using Element = {};\n"
      "    static constexpr int kTileM = {}, kTileN = {}, kTileK = {}, kTileWarpgroups = {}, kConsumerGroups = {}, "
      "kWarpgroupRows = {};\n"
      "    static constexpr int kStages = {}, kStagesA = {}, kHaloH = {}, kHaloW = {}, kStoreBuffers = {}, kClusterM = "
      "{}, kClusterN "
      "= {}, kUnit = {};\n"
      "    static constexpr bool kTwoDimensional = {}, kSplit = {}, kSwap = {};\n"
      "    static constexpr Norm kNorm = Norm::{};\n"
      "    {}\n"
      "    static constexpr int kFetch = {}, kMoments = {}, kGroup = 0;\n"
      "    static constexpr bool kStationary = {}, kWide = false, kMeets = false;\n"
      "    static constexpr Stores kStores = Stores::kTma;\n"
      "    using Resample = AsItIs;\n"
      "}};\n",
      number,
      c.element == DType::f16    ? "F16"
      : c.element == DType::tf32 ? "Tf32"
                                 : "Bf16",
      c.tile.m, c.tile.n, c.tile.k, c.schedule.warpgroups(), c.schedule.consumer_groups(),
      c.tile.m / c.schedule.warpgroups(), c.schedule.stages, c.activation_stages(), halo.halo_h, halo.halo_w,
      c.features.store_buffers, c.schedule.cluster.m, c.schedule.cluster.n, c.unit(), c.two_dimensional(),
      c.schedule.split, c.schedule.swap, norm(c.mode()), operands(c), c.features.fetch.value_or(0), c.features.moments,
      c.schedule.stationary);
}

std::string visitor_text(const plan::VisitorShape& v) {
  const char* side = v.side == plan::VisitorShape::Side::none     ? "kNone"
                     : v.side == plan::VisitorShape::Side::before ? "kBefore"
                                                                  : "kAfter";
  return fmt::format("Visitor<{}, {}, {}, SideStore::{}>", v.columns_before, v.columns_after, v.late_words, side);
}

Statistics of_units(NormMode mode, int unit) {
  if (mode == NormMode::resident) return ResidentStatistics{unit};
  if (mode == NormMode::streamed) return StreamedStatistics{unit};
  return statistics_of(mode);
}

std::vector<ConvConfig> configurations() {
  std::vector<ConvConfig> list;
  for (const NormMode mode : {NormMode::none, NormMode::resident, NormMode::streamed, NormMode::rows})
    for (const Order order : {Order::pingpong, Order::cooperative, Order::pingpong2})
      for (const int n : {64, 72, 80, 96}) {
        ConvConfig c{.tile = {.m = n == 80 ? 256 : 128, .n = n},
                     .schedule = {.order = order, .stages = 3},
                     .statistics = of_units(mode, n == 72 ? 3 : 4)};
        if (n != 96) c.loader = HaloTile{.halo_h = 2, .halo_w = 1};
        c.tile.k = n == 96 ? 32 : 64, c.element = n == 72 ? DType::f16 : DType::bf16;
        c.features.store_buffers = mode == NormMode::streamed ? stores_per_tile(c) : std::min(2, stores_per_tile(c));
        c.schedule.cluster.n = n == 64 ? 2 : 1;
        c.schedule.split = n == 96 && mode == NormMode::resident;
        list.push_back(c);
        if (n == 64 && mode != NormMode::rows) c.schedule.swap = true, list.push_back(c);
      }
  list.push_back({.tile = {.m = 64, .n = 256}, .schedule = {.stages = 4}});
  list.push_back(
      {.tile = {.m = 128, .n = 160}, .schedule = {.stages = 5, .stationary = true}, .loader = Im2colTile{.stages = 4}});
  list.push_back({.tile = {.m = 256, .n = 64},
                  .schedule = {.stages = 9, .swap = true, .stationary = true},
                  .loader = HaloTile{.stages = 2, .halo_h = 2, .halo_w = 2},
                  .statistics = StreamedStatistics{.unit = 2},
                  .features = {.store_buffers = 8}});
  for (const NormMode mode : {NormMode::none, NormMode::resident, NormMode::streamed, NormMode::rows})
    for (const bool halo : {false, true}) {  // tiles of several groups
      ConvConfig c{.tile = {.m = 128, .n = halo ? 56 : 64},
                   .schedule = {.stages = 9, .stationary = true},
                   .operands = {.group_channels = 5, .group_filters = halo ? 7 : 8},
                   .statistics = of_units(mode, halo ? 7 : 8)};
      if (halo) c.loader = HaloTile{.stages = 3, .halo_h = 2, .halo_w = 2};
      if (!halo) c.loader = Im2colTile{.stages = 4};
      c.features.store_buffers = mode == NormMode::streamed ? stores_per_tile(c) : 1;
      list.push_back(c);
    }
  list.push_back({.tile = {.m = 64, .n = 160},
                  .schedule = {.stages = 4},
                  .features = {.moments = 20}});  // more moments than a slice
  list.push_back({.tile = {.m = 128, .n = 200}, .schedule = {.stages = 4}, .features = {.moments = 5}});
  list.push_back({.tile = {.m = 256, .n = 64},
                  .schedule = {.stages = 4, .swap = true},
                  .features = {.store_buffers = 2, .moments = 2}});
  for (const bool halo : {false, true}) {
    ConvConfig c{
        .element = DType::tf32,
        .tile = {.m = 128, .n = 72, .k = 32},
        .schedule = {.stages = 4},
    };
    if (halo) c.loader = HaloTile{.halo_h = 2, .halo_w = 1};
    list.push_back(c);
  }
  for (const int n : {72, 160})
    list.push_back({.tile = {.m = 128, .n = n, .k = n == 160 ? 32 : 64},
                    .schedule = {.stages = 4},
                    .loader = Im2colTile{.box = n == 72 ? Im2colTile::Box::columns : Im2colTile::Box::pixels},
                    .operands = {.columns_b = true, .batched = n == 72}});
  for (const NormMode mode : {NormMode::none, NormMode::resident, NormMode::streamed, NormMode::rows}) {
    ConvConfig c{.tile = {.m = 128, .n = 96, .k = 32}, .schedule = {.stages = 5}, .statistics = statistics_of(mode)};
    c.features.store_buffers = mode == NormMode::streamed ? stores_per_tile(c) : 1;
    c.loader = sm90::Gathering{.filters = mode != NormMode::none};
    c.operands.columns_b = mode == NormMode::none;
    list.push_back(c);
    c.tile.n = 64, c.tile.k = 64, c.operands.columns_b = false;
    c.loader = sm90::Gathering{.filters = mode != NormMode::none, .direct = true};
    if (mode == NormMode::streamed) c.features.store_buffers = stores_per_tile(c);
    list.push_back(c);
  }
  for (const NormMode mode : {NormMode::none, NormMode::resident, NormMode::streamed, NormMode::rows})
    for (const int channels : {1, 3, 4, 16}) {
      Conv2d conv = test::conv_of(1, 64, 64, channels, 64, channels == 16 ? 3 : 7);
      conv.stride = {channels == 4 ? 3 : 2, channels == 3 ? 2 : 1};
      ConvConfig c{.tile = {.m = channels == 1 ? 256 : 128, .n = 64},
                   .schedule = {.stages = 3},
                   .loader = ExplicitIm2col{.window = im2col_window_of(conv), .stages = channels == 3 ? 5 : 2},
                   .statistics = statistics_of(mode)};
      c.tile.k = channels == 16 ? 32 : 64;
      if (channels == 3) c.tile.n = 72, c.element = DType::f16;
      c.features.store_buffers = mode == NormMode::streamed ? stores_per_tile(c) : 1;
      list.push_back(c);
    }
  for (const int n : {64, 72, 128})
    for (const int k : {64, 128})  // dual products
      list.push_back({.tile = {.m = 128, .n = n, .k = k},
                      .schedule = {.order = Order::cooperative, .stages = 2},
                      .loader = Im2colTile{.box = Im2colTile::Box::rows},
                      .operands = {.columns_b = n != 72, .products = 2}});
  for (const int n : {80, 128})
    list.push_back({.tile = {.m = 128, .n = n},
                    .schedule = {.stages = 4},
                    .loader = HaloTile{.stages = 2, .halo_h = 1, .halo_w = 1, .by_parity = true, .odd_w = n == 80}});
  for (const bool halo : {false, true})
    for (const int k : {32, 64, 128}) {
      if (halo && k == 32) continue;
      ConvConfig c{.tile = {.m = 64, .n = 80, .k = k}, .schedule = {.stages = 3}, .operands = {.flipped = true}};
      if (halo) c.loader = HaloTile{.halo_h = 2, .halo_w = 4};
      list.push_back(c);
    }
  for (const bool halo : {false, true})
    for (const int n : {72, 128}) {  // two atoms a step
      ConvConfig c{.tile = {.m = 128, .n = n, .k = 128},
                   .schedule = {.stages = 2, .swap = n == 128},
                   .features = {.store_buffers = 2}};
      if (halo)
        c.loader = HaloTile{.halo_h = 2, .halo_w = 1, .by_parity = n == 128};
      else if (n == 72)
        c.loader = Im2colTile{.box = Im2colTile::Box::columns};
      list.push_back(c);
    }
  for (const NormMode mode : {NormMode::none, NormMode::resident, NormMode::rows})
    for (const int n : {64, 72, 160})
      for (const int count : {1, 2, 3}) {
        ConvConfig c{.tile = {.m = 128, .n = n},
                     .schedule = {.stages = 2},
                     .statistics = statistics_of(mode),
                     .features = {.store_buffers = count, .fetch = count}};
        if (n == 72) c.loader = sm90::Gathering{};
        if (n == 160) c.loader = HaloTile{.halo_h = 2, .halo_w = 2};
        c.schedule.swap = n == 64 && mode != NormMode::rows && count > 1;
        list.push_back(c);
      }
  list.push_back({.tile = {.m = 256, .n = 128},
                  .schedule = {.order = Order::cooperative, .stages = 5},
                  .loader = HaloTile{.stages = 3, .halo_h = 6, .halo_w = 4}});
  return list;
}

std::vector<plan::VisitorShape> visitors(NormMode mode) {
  using Side = plan::VisitorShape::Side;
  if (mode == NormMode::none) return {{}, {.columns_after = 3}, {.columns_after = 1, .side = Side::after}};
  if (mode == NormMode::rows)
    return {{.normalises = true},
            {.normalises = true, .columns_before = 1, .columns_after = 2},
            {.normalises = true, .columns_before = 2, .columns_after = 3, .side = Side::before},
            {.normalises = true, .columns_before = 1, .columns_after = 2, .side = Side::after}};
  return {{.normalises = true, .columns_before = 1, .late_words = 2},
          {.normalises = true},
          {.normalises = true, .columns_before = 2, .columns_after = 3, .late_words = 5, .side = Side::before},
          {.normalises = true, .columns_before = 1, .columns_after = 1, .late_words = 1, .side = Side::after}};
}

// The configuration and the visitor of a generated kernel, in a namespace of their own.
std::string generated_text(const char* epilogue, NormMode mode, int number) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 128, 3);
  const auto e = test::epilogue_of(epilogue, conv);
  PlanOverride fixed;
  const bool waits =
      std::ranges::any_of(e.list, [](const plan::Epilogue& form) { return form.exchanging() != nullptr; });
  if (waits || (e->norm() && !e->normalises_rows()))
    fixed.fields["mode"] = mode == NormMode::resident ? "resident" : "streamed";
  const ConvPlan plan = choose(conv, e, Device{}, fixed);
  const std::string source = generate(e.list[plan.form], plan.config).source, open = "namespace unisono {\n\n";
  const std::size_t begin = source.find(open) + open.size(), end = source.find("\n}  // namespace unisono");
  return fmt::format("namespace unisono::generated{} {{\n{}\nstatic_assert(Conv::kSharedBytes == {});\n}}\n", number,
                     source.substr(begin, end - begin), plan.shared_bytes);
}

const char* const generated[] = {
    test::bare,
    "store silu(acc * s[b,n] + bias[n]) as y : bf16\nstore acc as z : bf16\n",
    test::block,
    "store group_norm(acc, groups=16, eps=1e-5) as y : bf16\n",
    "h = acc + bias[n]\nn = group_norm(h, groups=32, scale=gamma[n], shift=beta[n], eps=1e-5)\n"
    "store silu(n * (1 + s[b,n]) + t[b,n]) as y : bf16\nstore h as raw : bf16\n",
    "n = group_norm(acc, groups=8, scale=gamma[n], eps=1e-5)\nstore relu(n) as y : bf16\nstore n + r[n] as z : bf16\n",
    "h = acc + bias[n]\nstore silu(layer_norm(h, scale=gamma[n], shift=beta[n])) as y : bf16\nstore h as raw : bf16\n",
    "h = softmax(acc * s[m] + bias[n], over=n)\nstore h as y : bf16\nstore -h as z : bf16\nstore variance(acc, over=m) "
    "as v : f32\n"
    "store max(acc, over=m) as top : f32\nstore sum(acc) as total : f32\n",
    "operand r[m,n] : bf16\nstore silu(acc + bias[n]) + r as y : bf16\n",
    "operand r[m,n] : bf16\noperand q[m,n] : f16\nstore group_norm(acc, groups=16) * r + q as y : bf16\n",
    "operand r[m,n] : bf16\noperand q[m,n] : f16\nstore sum(acc * r - q) as s : f32\nstore acc as y : bf16\n",
    "operand q[m,n] : f16\nh = acc + q\nstore h as z : bf16\nstore relu(group_norm(h, groups=16)) as y : bf16\n",
    "store sum(acc, over=n) as s : f32\nstore mean(acc, over=(m,n), groups=4) as g : f32\nstore acc as y : f32\n",
    "store softmax(acc + bias[n], over=n, groups=8) as y : bf16\nstore max(acc, over=n, groups=32) as top : f32\n",
    "operand x[m,n] : bf16\nh = (acc + bias[n]) * x\nd = h - mean(h * x, over=(m,n), per=b, groups=32)\n"
    "store d * sum(h, over=(m,n), per=b, groups=32) as y : bf16\nstore h as z : bf16\nstore sum(h, over=m) as s : f32\n"
    "store variance(d, over=m) as v : f32\nstore max(d) as top : f32\n",
    "a = max(acc, over=m, per=b)\nb = min(acc, over=m, per=b)\nc = sum(acc, over=m, per=b)\nd = sum_squares(acc, "
    "over=m, "
    "per=b)\nstore acc * (a - b) + c * d * s[n] as y : f32\n",
    "y = group_norm(acc, groups=16) * s[m]\nstore batch_norm(y) as y : f32\nstore sum(y, over=m) as s : f32\n",
};

}  // namespace
}  // namespace unisono::families::sm90_conv

int main(int count, char** arguments) {
  using namespace unisono::families::sm90_conv;
  if (count != 2) return std::cerr << "usage: shared_memory_cases OUTPUT\n", 2;
  std::ofstream out(arguments[1]);
  out << head;
  int number = 0, asserted = 0;
  for (const ConvConfig& c : configurations()) {
    out << config_text(c, number);
    for (const unisono::plan::VisitorShape& v : visitors(c.mode())) {
      const std::size_t bytes = shared_bytes(c, v);
      if (bytes > 232448 || (c.features.moments > 0 && v.side != unisono::plan::VisitorShape::Side::none))
        continue;  // the headers refuse these themselves
      out << fmt::format("static_assert(ConvFprop<Config{}, {}>::kSharedBytes == {});\n", number, visitor_text(v),
                         bytes);
      ++asserted;
    }
    ++number;
  }
  for (const char* epilogue : generated)
    for (const NormMode mode : {NormMode::resident, NormMode::streamed}) {
      out << generated_text(epilogue, mode, asserted);
      ++asserted;
    }
  std::cout << asserted << " cases of " << number << " configurations\n";
  return out.good() && asserted > 100 ? 0 : 1;
}
