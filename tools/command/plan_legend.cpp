#include "command/plan_legend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace unisono::command {
namespace {

struct PlanWord {
  std::string_view word, meaning;
};
/// In the order in which a plan has them.
constexpr PlanWord plan_words[] = {
    {"depthwise", "no matrix instructions: strips of pixels by channels, for one input channel a group"},
    {"pingpong", "two consumer warpgroups, each with its own tile, take turns at the tensor cores"},
    {"cooperative", "two consumer warpgroups share a tile"},
    {"pingpong2", "ping-pong of two consumer groups of two warpgroups, each with its own tile"},
    {"cluster", "CTAs of a cluster, which share loads: along tiles of rows x along tiles of channels"},
    {"split", "split-K: the depth is divided among CTAs"},
    {"group", "that many rows of tiles at a time, so that L2 holds what they read"},
    {"swap", "filters are the first operand of the matrix instruction"},
    {"stationary", "filters stay in shared memory for the whole launch"},
    {"resident", "accumulators wait in registers for the statistics of their image; stored once"},
    {"streamed", "tiles wait in shared memory, or in L2 and memory, for the statistics of their image"},
    {"spill", "the type in which tiles wait for the statistics of their image"},
    {"channels", "all tiles of some channels of an image come before those of the next channels"},
    {"hints", "L2 keeps tiles that wait rather than operands and results"},
    {"rows", "each pixel is normalised over its channels, which a tile holds, or the tiles of a row together"},
    {"deferred", "a tile waits for the others of its row in registers while the next one is multiplied"},
    {"general", "reductions that stores read: elements are computed once for them and once more for the stores"},
    {"tf32", "products of f32 operands without their last 13 bits"},
    {"A(k,m)", "the left factor is transposed"},
    {"B(k,n)", "the right factor is not transposed"},
    {"parity", "one convolution of stride 1 for each parity of the output's pixels"},
    {"flipped", "filters of a transposed convolution in their own layout, their taps in reverse"},
    {"batched", "several products"},
    {"direct", "no matrix instructions"},
    {"gather", "ordinary loads of the image (all: of the filters, too), because TMA cannot load it"},
    {"plain", "ordinary stores"},
    {"planes", "ordinary stores into a channels-first result"},
    {"im2col_smem", "im2col in shared memory, for images of few channels"},
    {"fetch", "operands [m,n] loaded by TMA x their buffers"},
    {"memory", "in shared memory: lanes take eight channels of a row from there, not two from registers"},
    {"pooled", "the maxima of 2x2 pixels of the result are stored, too"},
    {"upsampled", "each pixel of the result is stored as 2x2 pixels, too (only: nothing else is stored)"},
    {"statistics", "mean and M2 of the stored tensor are stored, too, in units of that many channels"}};

std::string legend_line(std::string_view part, std::string_view meaning) {
  return fmt::format("  {:<14} {}\n", part, meaning);
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || text[at - 1] == ' ') && (end == text.size() || text[end] == ' ' || text[end] == '/')) return true;
  }
  return false;
}

/// "128x160/5+3 pingpong" of "128x160/5+3 pingpong, 40 tiles, …"
std::string_view configuration_of(std::string_view plan) { return plan.substr(0, plan.find(',')); }

std::string tile_legend(std::string_view tile) {
  const std::size_t slash = tile.find('/');
  if (slash == tile.npos) return {};
  return legend_line(tile.substr(0, slash),
                     "a tile of pixels (matrix rows) x channels (x depth of a k-step, unless 64)") +
         legend_line(tile.substr(slash), tile.find('+') == tile.npos
                                             ? "stages of shared memory for both operands"
                                             : "stages of shared memory for filters + for the image");
}

}  // namespace

std::string legend_of(const std::vector<std::string>& plans) {
  std::string text = "how to read the plan (docs/plan.md has more):\n", tiles;
  for (const std::string& plan : plans) {
    const std::string_view configuration = configuration_of(plan);
    if (tiles.empty()) tiles = tile_legend(configuration.substr(0, configuration.find(' ')));
  }
  text += tiles;
  for (const auto& [word, meaning] : plan_words) {
    const auto says = [&word = word](const std::string& p) { return has_word(configuration_of(p), word); };
    if (std::ranges::any_of(plans, says)) text += legend_line(word, meaning);
  }
  return text;
}

std::string legend_of(const std::string& plan) { return legend_of(std::vector{plan}); }

}  // namespace unisono::command
