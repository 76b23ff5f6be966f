/// Fields of an override that only some configurations have.

#include <fmt/format.h>

#include "families/sm90/fields.hpp"
#include "families/sm90_conv/geometry.hpp"

namespace unisono::families::sm90_conv {

using sm90::unfit;

std::optional<plan::Refusal> refuse_fields(const ConvConfig& c, const sm90::FixedFields& fixed) {
  if (fixed.unit.value_or(c.unit()) != c.unit())
    return unfit("unit: {} channels; without statistics of an image there are no entries", *fixed.unit);
  if (!c.operands.converted && fixed.ahead)
    return unfit(
        "ahead: nothing is converted; images channels first are, of 16 bits and one group, in halo or im2col "
        "tiles, but for 1x1 filters of stride 1 over a multiple of 8 pixels and channels");
  if (c.spills() && fixed.spill && *fixed.spill != sm90::Spill::f32)
    return unfit("spill: {}; accumulators wait as they are, in f32", to_string(sm90::dtype_of(*fixed.spill)));
  if (!c.streamed() && fixed.spill && !c.spills())
    return unfit(
        "spill: only tiles that wait for their image's statistics have it (mode=streamed), and those of general "
        "epilogues whose elements read reductions over rows");
  if (fixed.raster == sm90::Raster::channels && !c.by_channels())
    return unfit("raster: only tiles that wait for their image's statistics have it (mode=resident or streamed)");
  if (fixed.hints == true && !c.streamed())
    return unfit("hints: only tiles that wait for their image's statistics in memory have it (mode=streamed)");
  if (fixed.deferred == true && !c.deferred())
    return unfit("deferred: only tiles of a row that wait for one another have it (mode=rows, several tiles across)");
  return {};
}

}  // namespace unisono::families::sm90_conv
