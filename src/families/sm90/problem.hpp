#pragma once
/// A convolution and its epilogue as the planner sees them, checked once.

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "families/sm90/phases.hpp"
#include "plan/as_convolution.hpp"
#include "plan/device.hpp"
#include "plan/expected.hpp"
#include "plan/refusal.hpp"
#include "plan/resampling.hpp"
#include "plan/tile_limits.hpp"
#include "plan/visitor_shape.hpp"

namespace unisono::families::sm90 {

/// What a side of the normalisation costs for each element of the output.
struct Work {
  int simple = 0;                 ///< operations of one or two instructions
  int special = 0;                ///< operations that use the special-function unit, or a polynomial
  int columns = 0;                ///< column values read
  int tensors = 0;                ///< operands [m,n] read
  std::int64_t tensor_bytes = 0;  ///< these operands' bytes, an element of the output
};

struct ConvProblem {
  Conv2d conv;  ///< task.conv
  Extents extents;
  plan::VisitorShape visitor;
  Work before, after;      ///< without a normalisation everything is `after`
  int group_channels = 0;  ///< a group's, of statistics that are exchanged, or of a row; 0: there are none
  bool uses_raw = false;
  bool placed = false;  ///< an operand [m,n] does not lie as the output does
  plan::ConvTask task = Conv2d{};
  std::optional<plan::Refusal> gathered = {};  ///< why TMA cannot load the operands; nothing: it can
  bool group_tiles = false;                    ///< but a tile may be several groups, of which it loads the image
  bool per_pixel = false;                      ///< the normalisation is over the channels of a pixel
  bool batch = false;                          ///< what is exchanged is over the pixels of all images
  bool spills = false;                         ///< general: tiles wait in memory for what elements read of all of them
  bool row_waits = false;                      ///< a row's channels are in one tile, or its tiles wait for one another
  int widest_call = 1;                         ///< the widest form of functions that are called
  int row_levels = 0;                          ///< general: of reductions over the channels of a row
  int row_specials = 0;                        ///< special operations for each element of a row's statistic
  bool reduces_rows = false;                   ///< general: there are reductions over the channels of a row
  bool per_image = false;                      ///< what a tile computes depends on its image
  bool second_pass = false;                    ///< plan::Results::any: behind an image's normalisation streamed alone
                                               ///< serves it
  bool wide_main = false;                      ///< its main store has 32 bits an element
  std::string not_streamed = {};               ///< general: why the mode streamed does not serve it either
  int stores = 1;                              ///< [m,n]
  std::int64_t store_bytes = 2;                ///< their bytes, an element of the output
  plan::Resampling resampling;                 ///< the main one's
  int fetchable = 0;                           ///< operands that TMA could bring: fetchable.hpp
  std::int64_t moments = 0;                    ///< StoredMoments::channels

  /// 4 by phases, else 1; and the pixels of one, of which tiles are made.
  int phases() const { return task.phases ? 4 : 1; }
  std::int64_t phase_height() const { return task.phases ? phase_pixels(extents.height) : extents.height; }
  std::int64_t phase_width() const { return task.phases ? phase_pixels(extents.width) : extents.width; }

  /// Planes of a volume's output, and of its filter; a halo tile, which lies in one plane, has `plane_taps` of the
  /// latter.
  std::int64_t planes() const { return task.volume ? output_planes(*task.volume) : 1; }
  std::int64_t filter_planes() const { return task.volume ? task.volume->t : 1; }
  std::int64_t plane_taps() const { return conv.r / filter_planes() * conv.s; }

  /// The products of one output: taps times channels of a group.
  std::int64_t depth() const { return conv.r * conv.s * conv.c / conv.groups; }
  std::int64_t element_bytes() const { return static_cast<std::int64_t>(size_of(conv.dtype_x)); }
  /// Elements in the 128 bytes that a swizzle spans: the depth of a stage, or half of it.
  int line_depth() const { return static_cast<int>(128 / element_bytes()); }
  std::int64_t pixels() const { return extents.rows_per_image(); }
};

/// A matrix instruction has at most so many channels.
inline constexpr plan::TileLimits tile_limits{.channels = 256};

/// Why these kernels do not exist for a device: they are for compute capability 9.0; nothing: they do.
std::optional<plan::Refusal> refuse_device(const plan::Device& device);

/// A refusal of one plan: another may serve. The rule's text is what tells it from others; a reason is that text with
/// these values.
template <class... Values>
plan::Refusal unfit(fmt::format_string<Values...> rule, Values&&... values) {
  const fmt::string_view text = rule;
  return {.scope = plan::Refusal::Scope::plan,
          .reasons = {fmt::format(rule, std::forward<Values>(values)...)},
          .rule = {.text = {text.data(), text.size()}}};
}

/// Why no kernel of this device serves it, whatever the plan, with every reason at once; nothing: some may. Throws
/// UserError for a wrong contraction.
std::optional<plan::Refusal> refuse_problem(const plan::ConvTask& task, const plan::Epilogue& epilogue);

/// Refuses as refuse_problem() does. Throws UserError for a wrong contraction or group width.
plan::Expected<ConvProblem> make_problem(const plan::ConvTask& task, const plan::Epilogue& epilogue);

}  // namespace unisono::families::sm90
