/// Fields of an override that follow from others, or that only some configurations have.

#include <fmt/format.h>

#include "families/sm90/fields.hpp"
#include "families/sm90_conv/geometry.hpp"

namespace unisono::families::sm90_conv {
namespace {

using sm90::unfit;

/// Tiles of accumulators in flight: registers hold one for each consumer group.
std::optional<plan::Refusal> refuse_accumulators(const ConvConfig& c, const sm90::FixedFields& fixed) {
  const int own = consumer_groups_of(c.schedule.order);
  if (fixed.accumulators.value_or(own) == own) return {};
  return unfit("accumulators: {}; {} has {}, in the registers of each consumer group: {}", *fixed.accumulators,
               to_string(c.schedule.order), own,
               own == 1 ? "order=pingpong or pingpong2 has two" : "order=cooperative has one");
}

/// How a k-step of the operands lies in a stage.
std::optional<plan::Refusal> refuse_operand_layout(const ConvConfig& c, const sm90::FixedFields& fixed) {
  if (!fixed.swizzle && !fixed.k_groups) return {};
  if (c.gathered() && c.gathered()->direct)
    return unfit("{}: without matrix instructions nothing is staged", fixed.swizzle ? "swizzle" : "k_groups");
  const int span = c.atom_k() * static_cast<int>(size_of(c.element));
  if (fixed.swizzle.value_or(span) != span)
    return unfit(
        "swizzle: {} bytes; rows of {} elements of k are {} bytes, and TMA's pattern and the matrix "
        "instruction's descriptor are as wide as a row. 64 bytes go with depth=32 of 16-bit elements, 128 with "
        "the others; 32 have no depth",
        *fixed.swizzle, c.atom_k(), span);
  if (fixed.k_groups.value_or(c.atoms()) != c.atoms())
    return unfit("k_groups: {}; a step of {} elements is {} of 128 bytes: depth=128 has two in a stage, the others one",
                 *fixed.k_groups, c.tile.k, c.atoms());
  return {};
}

}  // namespace

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
  if (!c.streamed() && (fixed.raster == sm90::Raster::channels || fixed.hints == true))
    return unfit("{}: only tiles that wait for their image's statistics have it (mode=streamed)",
                 fixed.raster ? "raster" : "hints");
  if (auto refusal = refuse_accumulators(c, fixed)) return refusal;
  return refuse_operand_layout(c, fixed);
}

}  // namespace unisono::families::sm90_conv
