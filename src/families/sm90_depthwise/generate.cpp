#include "families/sm90_depthwise/generate.hpp"

#include <fmt/format.h>

#include "codegen/frame.hpp"
#include "unisono/error.hpp"

namespace unisono::families::sm90_depthwise {

namespace {

// An epilogue that refuse_depthwise() refuses
void check(const plan::Epilogue& e, const DepthwiseConfig& c) {
  if (e.general() != (c.mode == sm90::NormMode::general))
    throw InternalError(
        fmt::format("an epilogue that is {}general, and mode {}", e.general() ? "" : "not ", sm90::to_string(c.mode)));
  if (e.norm() || e.resampled.any() || e.moments.channels > 0)
    throw InternalError("a depthwise kernel for an epilogue that normalises, or makes more of its main store");
}

std::string depthwise_text(const DepthwiseConfig& c) {
  const DepthwiseStrip& s = c.strip;
  return fmt::format(
      "struct Config {{\n"
      "    using Element = {};\n"
      "    static constexpr int kWide = {}, kVector = {}, kTileN = {}, kThreads = {}, kBlocks = {};\n"
      "    static constexpr int kTapsH = {}, kTapsW = {}, kStrideH = {}, kStrideW = {}, kMultiplier = {};\n"
      "    static constexpr bool kGeneral = {};\n"
      "{}}};\n",
      codegen::operand_tag(c.element), s.pixels, s.channels, c.tile_n, depthwise_threads(c), s.ctas, s.taps_h, s.taps_w,
      s.stride_h, s.stride_w, s.multiplier, c.mode == sm90::NormMode::general,
      c.flipped ? "    static constexpr bool kFlipped = true;\n" : "");
}

}  // namespace

codegen::Kernel generate(const plan::Epilogue& epilogue, const DepthwiseConfig& config,
                         const codegen::Options& options) {
  check(epilogue, config);
  return codegen::framed(epilogue, options,
                         {.header = "unisono/sm90/depthwise.cuh",
                          .config = depthwise_text(config),
                          .kernel = "Depthwise",
                          .minimum = "unisono::Conv::kBlocks"});
}

}  // namespace unisono::families::sm90_depthwise
