#include "families/sm90_conv/general_reductions.hpp"

#include "families/sm90_conv/geometry.hpp"

namespace unisono::families::sm90_conv {

GeneralReductions general_reductions(const ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d) {
  const bool wide = p.reduces_rows && (c.tile.n < p.extents.cols || c.schedule.cluster.n > 1),
             row_waits = wide && p.row_waits;
  const std::int64_t width = std::int64_t{c.tile.n} * c.schedule.cluster.n,
                     across = (p.extents.cols + width - 1) / width * p.phases(),
                     held = clusters_in_flight(c, across, d) * c.schedule.consumer_groups();
  const bool spills_rows = p.spills && row_waits && (across > held || !p.visitor.returns);
  return {.wide = wide,
          .meets = row_waits || p.visitor.returns,
          .spills = p.spills && (p.visitor.returns || spills_rows),
          .spills_rows = spills_rows};
}

}  // namespace unisono::families::sm90_conv
