#include "families/plain/generate.hpp"

#include <fmt/format.h>

#include "codegen/frame.hpp"
#include "unisono/error.hpp"

namespace unisono::families::plain {
namespace {

// An epilogue that refuse() refuses
void check(const plan::Epilogue& e, const Config& c) {
  const bool general = c.mode == Config::Mode::general,
             normalises = c.mode == Config::Mode::normalises || c.mode == Config::Mode::normalises_rows;
  if (e.general() != general || !e.norm() == normalises)
    throw InternalError(fmt::format("an epilogue that is not of mode {}", to_string(c.mode)));
  if (e.resampled.any() || e.moments.channels > 0)
    throw InternalError("a plain kernel for an epilogue that makes more of its main store");
}

std::string filter_text(const Config& c) {
  const std::string tag(codegen::operand_tag(c.filter));
  return c.products > 1 ? fmt::format("Two<{}>", tag) : tag;
}

std::string config_text(const Config& c) {
  const Tiling& t = c.tiling;
  return fmt::format(
      "struct Config {{\n"
      "    using Image = {};\n"
      "    using Filter = {};\n"
      "    static constexpr int kTileM = {}, kTileN = {}, kTileK = {}, kEachM = {}, kEachN = {}, kThreads = {}, "
      "kBlocks = 1;\n"
      "    static constexpr bool kDirect = {}, kTransposed = {}, kRowsFirst = {}, kColumnsFirst = {}, kPlanes = {};\n"
      "    static constexpr bool kGeneral = {}, kNormalises = {}, kPerPixel = {};\n"
      "}};\n",
      codegen::operand_tag(c.image), filter_text(c), t.tile_m, t.tile_n, t.tile_k, t.each_m, t.each_n, t.threads(),
      t.direct, c.transposed, c.rows_first, c.columns_first, c.planes, c.mode == Config::Mode::general,
      c.mode == Config::Mode::normalises || c.mode == Config::Mode::normalises_rows,
      c.mode == Config::Mode::normalises_rows);
}

}  // namespace

codegen::Kernel generate(const plan::Epilogue& epilogue, const Config& config, const codegen::Options& options) {
  check(epilogue, config);
  return codegen::framed(epilogue, options,
                         {.header = "unisono/plain/conv.cuh",
                          .config = config_text(config),
                          .kernel = "PlainConv",
                          .minimum = "unisono::Conv::kBlocks"});
}

}  // namespace unisono::families::plain
