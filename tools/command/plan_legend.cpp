#include "command/plan_legend.hpp"

#include <fmt/format.h>

#include <string_view>

namespace unisono::command {
namespace {

struct PlanWord {
  std::string_view word, meaning;
};
/// In the order in which a plan has them.
constexpr PlanWord plan_words[] = {
    {"depthwise", "no matrix instructions: strips of pixels by channels, for one input channel a group"},
    {"pingpong", "two consumer warpgroups, each with a tile of its own, take turns at the tensor cores"},
    {"cooperative", "two consumer warpgroups share a tile"},
    {"pingpong2", "ping-pong of two consumer groups of two warpgroups, each with a tile of its own"},
    {"cluster", "CTAs of a cluster, which share loads: along tiles of rows x along tiles of channels"},
    {"split", "split-K: the depth is divided among CTAs"},
    {"group", "so many rows of tiles at a time, so that L2 holds what they read"},
    {"swap", "filters are the first operand of the matrix instruction"},
    {"stationary", "filters stay in shared memory for the whole launch"},
    {"resident", "accumulators wait in registers for the statistics of their image; stored once"},
    {"streamed", "tiles wait in shared memory, or in L2 and memory, for the statistics of their image"},
    {"rows", "a tile holds all channels of its pixels; each is normalised by itself"},
    {"general", "reductions that stores read: elements are computed once for them and once more for the stores"},
    {"tf32", "products of f32 operands without their last 13 bits"},
    {"A(k,m)", "the left factor is transposed"},
    {"B(k,n)", "the right factor is not transposed"},
    {"parity", "one convolution of stride 1 for each parity of the output's pixels"},
    {"batched", "several products"},
    {"direct", "no matrix instructions"},
    {"gather", "ordinary loads of the image (all: of the filters, too), because TMA cannot load it"},
    {"plain", "ordinary stores"},
    {"planes", "ordinary stores into a channels-first result"},
    {"im2col_smem", "im2col in shared memory, for images of few channels"},
    {"fetch", "operands [m,n] loaded by TMA x their buffers"}};

std::string legend_line(std::string_view part, std::string_view meaning) {
  return fmt::format("  {:<14} {}\n", part, meaning);
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || text[at - 1] == ' ') && (end == text.size() || text[end] == ' ')) return true;
  }
  return false;
}

}  // namespace

std::string legend_of(const std::string& plan) {
  const std::string_view configuration = std::string_view(plan).substr(0, plan.find(','));
  std::string text = "how to read the plan (docs/plan.md has more):\n";
  const std::string_view tile = configuration.substr(0, configuration.find(' '));
  if (const std::size_t slash = tile.find('/'); slash != tile.npos) {
    text += legend_line(tile.substr(0, slash),
                        "a tile of pixels (matrix rows) x channels (x depth of a k-step, unless 64)");
    text += legend_line(tile.substr(slash), tile.find('+') == tile.npos
                                                ? "stages of shared memory for both operands"
                                                : "stages of shared memory for filters + for the image");
  }
  for (const auto& [word, meaning] : plan_words)
    if (has_word(configuration, word)) text += legend_line(word, meaning);
  return text;
}

}  // namespace unisono::command
