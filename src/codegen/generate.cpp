#include <fmt/format.h>

#include <set>
#include <sstream>

#include "codegen/codegen.hpp"
#include "codegen/visitor.hpp"
#include "plan/fetching.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {

namespace {

std::string_view norm_name(plan::NormMode mode) {
  switch (mode) {
    case plan::NormMode::none: return "kNone";
    case plan::NormMode::resident: return "kResident";
    case plan::NormMode::streamed: return "kStreamed";
    case plan::NormMode::rows: return "kRows";
    case plan::NormMode::general: return "kGeneral";
  }
  throw InternalError("a mode of normalising without a name");
}

// A configuration and an epilogue that a planner would not put together
void check(const plan::Epilogue& e, const plan::ConvConfig& c, const Options& options) {
  plan::Epilogue bound = e;
  bound.storage = options.storage;
  const auto fetched = plan::fetchable_operands(bound);
  if (const int count = c.fetch.value_or(0);
      count > std::ssize(fetched) || (count > 0 && fetched != plan::fetchable_operands(e)))
    throw InternalError(fmt::format("{} operands are fetched, planned for {} of 16 bits; {} are", count,
                                    plan::fetchable_operands(e).size(), fetched.size()));
  if (c.element != DType::bf16 && c.element != DType::f16 && c.element != DType::tf32)
    throw InternalError(
        fmt::format("a configuration for operands of {}: kernels take bf16, f16 and tf32", to_string(c.element)));
  if (e.general.has_value() != (c.mode == plan::NormMode::general))
    throw InternalError(
        fmt::format("an epilogue that is {}general, and mode {}", e.general ? "" : "not ", norm_name(c.mode)));
  if (e.norm.has_value() != (plan::normalises(c.mode)) && !e.general)
    throw InternalError(
        fmt::format("an epilogue {} a normalisation, and mode {}", e.norm ? "with" : "without", norm_name(c.mode)));
  if (e.norm && e.norm->per_pixel != (c.mode == plan::NormMode::rows))
    throw InternalError(fmt::format("statistics over {}, and mode {}",
                                    e.norm->per_pixel ? "the channels of a pixel" : "an image's pixels",
                                    norm_name(c.mode)));
  if (e.uses_raw && c.mode != plan::NormMode::resident)
    throw InternalError(
        fmt::format("an epilogue that reads the normalisation's input again, and mode {}", norm_name(c.mode)));
  if (plan::resampling_of(e.resampled) != c.resampling)
    throw InternalError(fmt::format("an epilogue that is resampled as '{}', and a configuration as '{}'",
                                    to_string(plan::resampling_of(e.resampled)), to_string(c.resampling)));
  if (plan::head_of(e) != c.head)
    throw InternalError(fmt::format("an epilogue with the head '{}', and a configuration with '{}'",
                                    to_string(plan::head_of(e)), to_string(c.head)));
  if ((e.moments.channels > 0) != (c.moments > 0) || (c.moments > 0 && c.mode != plan::NormMode::none))
    throw InternalError(
        fmt::format("an epilogue that stores moments of every {} channels, and one of every {}, mode {}",
                    e.moments.channels, c.moments, norm_name(c.mode)));
  if (e.norm && e.norm->group_channels % c.unit != 0)
    throw InternalError(fmt::format("units of {} channels do not divide groups of {}", c.unit, e.norm->group_channels));
}

std::string_view element_of(const plan::ConvConfig& c) {
  return c.element == DType::bf16 ? "Bf16" : c.element == DType::f16 ? "F16" : "Tf32";
}

std::string gathered_text(const plan::ConvConfig& c) {
  const plan::Gathering& g = *c.gather;
  return fmt::format(
      "    struct Operands : Gathered<{}, {}> {{\n"
      "        static constexpr bool kVectors = {}, kRowsFirstA = {}, kGatherFilters = {}, kRowsFirstB = {}, "
      "kTransposed = {};\n{}"
      "    }};\n",
      c.columns_b, c.batched, g.vectors, g.rows_first_a, g.filters, g.rows_first_b, g.transposed,
      g.direct ? "        static constexpr bool kDirect = true;\n" : "");
}

std::string unfolded_text(const plan::Unfolding& u) {
  return fmt::format(
      "    struct Operands : Unfolded {{\n"
      "        static constexpr int kLines = {}, kTaps = {}, kChannels = {};\n"
      "        static constexpr int kStrideH = {}, kStrideW = {}, kDilationH = {}, kPitch = {}, kShift = {};\n"
      "    }};\n",
      u.lines, u.taps, u.channels, u.stride_h, u.stride_w, u.dilation_h, u.pitch, u.shift);
}

std::string stores_text(plan::Stores stores) {
  if (stores == plan::Stores::tma) return "";
  return fmt::format("    static constexpr Stores kStores = Stores::{};\n",
                     stores == plan::Stores::plain ? "kPlain" : "kPlanes");
}

std::string resample_text(const plan::Resampling& r) {
  if (!r.any()) return "";
  return fmt::format("    using Resample = Resampled<{}, {}, {}>;  // only these, pooled, enlarged\n", r.only, r.pooled,
                     r.enlarged);
}

std::string head_text(const plan::HeadConfig& h) {
  if (!h.any()) return "";
  return fmt::format("    using Head = FusedHead<{}, {}, HeadVisitor>;  // eights of channels, alone\n", h.eights,
                     h.only);
}

std::string moments_text(int unit) {
  if (unit == 0) return "";
  return fmt::format("    static constexpr int kMoments = {};  // channels of an entry\n", unit);
}

// Where they lie otherwise than a convolution's
std::string operands_text(const plan::ConvConfig& c) {
  if (c.gather) return gathered_text(c);
  if (c.unfold) return unfolded_text(*c.unfold);
  if (c.phases) return "    using Operands = Phases;\n";
  if (!c.columns_a && !c.columns_b && !c.batched && !c.rows_a) return "";
  return fmt::format("    using Operands = Matrices<{}, {}, {}>;  // A is (k, m), B is (k, n), one B for each A\n",
                     c.columns_a, c.columns_b, c.batched);
}

std::string depthwise_text(const plan::ConvConfig& c) {
  const plan::DepthwiseStrip& s = *c.depthwise;
  return fmt::format(
      "struct Config {{\n"
      "    using Element = {};\n"
      "    static constexpr int kWide = {}, kVector = {}, kTileN = {}, kThreads = {}, kBlocks = {};\n"
      "    static constexpr int kTapsH = {}, kTapsW = {}, kStrideH = {}, kStrideW = {}, kMultiplier = {};\n"
      "    static constexpr bool kGeneral = {};\n"
      "}};\n",
      element_of(c), s.pixels, s.channels, c.tile_n, plan::depthwise_threads(c), s.blocks, s.taps_h, s.taps_w,
      s.stride_h, s.stride_w, s.multiplier, c.mode == plan::NormMode::general);
}

std::string config_text(const plan::ConvConfig& c) {
  return fmt::format(
      "struct Config {{\n"
      "    using Element = {};\n"
      "    static constexpr int kTileM = {}, kTileN = {}, kTileK = {};\n"
      "    static constexpr int kTileWarpgroups = {}, kTurns = {}, kWarpgroupRows = {};\n"
      "    static constexpr int kStages = {}, kStagesA = {}, kHaloH = {}, kHaloW = {}, kStoreBuffers = {};\n"
      "    static constexpr int kClusterM = {}, kClusterN = {};\n"
      "    static constexpr bool kPatch = {}, kSplit = {}, kSwap = {};\n"
      "    static constexpr Norm kNorm = Norm::{};\n"
      "    static constexpr int kUnit = {};\n{}{}{}"
      "}};\n",
      element_of(c), c.tile_m, c.tile_n, c.tile_k, c.tile_warpgroups, c.turns, c.tile_m / c.tile_warpgroups, c.stages,
      c.stages_a, c.halo_h, c.halo_w, c.store_buffers, c.cluster_m, c.cluster_n, c.patch, c.split, c.swap,
      norm_name(c.mode), c.unit, c.group > 0 ? fmt::format("    static constexpr int kGroup = {};\n", c.group) : "",
      operands_text(c) + stores_text(c.stores) + resample_text(c.resampling) + head_text(c.head) +
          moments_text(c.moments) +
          (c.fetch.value_or(0) > 0 ? fmt::format("    static constexpr int kFetch = {};\n", *c.fetch) : "") +
          (c.stationary ? "    static constexpr bool kStationary = true;  // all filters of a tile\n" : ""),
      c.mode == plan::NormMode::general
          ? fmt::format("    static constexpr bool kWide = {}, kMeets = {};\n", c.wide, c.meets)
          : "");
}

std::string commented(const std::string& text) {
  std::istringstream lines(text);
  std::string result, line;
  while (std::getline(lines, line)) result += "//   " + line + "\n";
  return result;
}

// Each text once: several functions, of several graphs, may come from one
std::string functions_text(const plan::Epilogue& e) {
  std::set<std::string> pasted;
  std::string text;
  for (const Graph* g : {&e.graph, e.head ? &e.head->epilogue.graph : nullptr}) {
    if (g == nullptr) continue;
    std::set<std::string> called;
    for (const Node& x : g->nodes)
      if (x.op == Op::call) called.insert(x.attr.name);
    for (const std::string& name : called)
      if (const std::string& source = g->functions.at(name)->cuda_source; pasted.insert(source).second)
        text += source + "\n\n";
  }
  return text;
}

}  // namespace

Kernel generate(const plan::Epilogue& epilogue, const plan::ConvConfig& config, const Options& options) {
  check(epilogue, config, options);
  VisitorWriter visitor(epilogue, options);
  const std::string body = visitor.text();  // first: it refuses what cannot be generated
  Kernel kernel;
  kernel.entry = "unisono_kernel";
  kernel.fields = visitor.fields();
  std::string head, about_head;
  if (epilogue.head) {
    VisitorWriter writer(epilogue.head->epilogue, options);
    head = writer.text("HeadVisitor") + "\n";
    kernel.head_fields = writer.fields();
    about_head = "// and of the store that is written last a product with few columns:\n" +
                 commented(print(epilogue.head->epilogue.graph));
  }
  kernel.source =
      "// A convolution and its epilogue in one kernel:\n" + commented(print(epilogue.graph)) + about_head +
      (options.watchdog ? "#define UNISONO_WATCHDOG\n" : "") + (options.delays ? "#define UNISONO_DELAYS\n" : "") +
      (config.depthwise ? "#include <unisono/depthwise.cuh>\n" : "#include <unisono/conv_fprop.cuh>\n") +
      "#include <unisono/math.cuh>\n#include <unisono/operands.cuh>\n\n" + functions_text(epilogue) +
      "namespace unisono {\n\n" + head + (config.depthwise ? depthwise_text(config) : config_text(config)) + "\n" +
      body + "\nusing Conv = " + (config.depthwise ? "Depthwise" : "ConvFprop") +
      "<Config, Visitor>;\n\n}  // namespace unisono\n\n" +
      "extern \"C\" __global__ void __launch_bounds__(unisono::Conv::kThreads, " +
      (config.depthwise ? "unisono::Conv::kBlocks" : "1") +
      ")\n"
      "unisono_kernel(const __grid_constant__ unisono::Conv::Params params) {\n    unisono::Conv::run(params);\n}\n";
  return kernel;
}

}  // namespace unisono::codegen
