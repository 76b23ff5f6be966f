#pragma once
/// What the cost model of these kernels has fitted.

#include "families/sm90/cost.hpp"

namespace unisono::families::sm90_conv {

/// All that is fitted or measured, in one place; docs/plan-refused.md gives the sources. A clk is a clock of an SM.
struct CostConstants : sm90::LaunchConstants {
  // Launch
  double sustained = 0.90;   ///< what the power limit leaves of Device::tensor_tflops
  double unmeasured = 1.04;  ///< for a tile that nobody has timed: what the model does not know of it
  // Main loop
  double tensor_ops = 4096;      ///< multiplications and additions a clk
  double shared_bytes = 130;     ///< a clk: the instructions' operands and the loads' writes
  double l2_bytes = 53;          ///< a clk, all SMs at work
  double halo_l2_bytes = 60;     ///< the same of halo tiles for several taps: mostly filters, which all read at once
  double held_steps = 2;         ///< products for which a stage stays full: two stages do not hide load_clk
  double cold_bytes = 44;        ///< the same where each CTA has one tile: everything comes from memory first
  double step_clk = 150;         ///< the shortest k-step: barrier, issue, release
  double deep_step_clk = 260;    ///< the same of 128 elements; not measured
  double ragged_pair = 1.005;    ///< dual products of tiles that are no multiple of 64 channels: 128x80 against 256x64
  double general_pair = 1.06;    ///< and in the general mode of other tiles than 128x128
  double void_tap = 0.12;        ///< share of a step: a stage that goes by without operands; not measured
  double box = 1.06;             ///< loads of boxes against im2col loads, where a box serves one tap
  double deep = 1.04;            ///< steps of 128 elements; not measured
  double single_box = 1.01;      ///< halo tiles that serve one tap: 14.6 against 14.4 us at 8,64,64,320,320,1
  double cluster = 1.03;         ///< stages that are released across a cluster
  double plane_power = 0.93;     ///< halo tiles of all channels of a volume's plane: 1617 us at 256, by im2col 1788
  double plane_cluster = 1.15;   ///< those in clusters: 2204 against 1876 us at 1,8,480,832,96,96, 1722 against 1617
  double pingpong2 = 1.03;       ///< beside four consumer warpgroups
  double direct = 8;             ///< a product of one element, by one warp a scheduler; not measured
  double vector = 120;           ///< gathered: eight channels at once; not measured
  double elements = 1900;        ///< or one after another: 200 instructions and a trip to memory
  double row_clk = 4.5;          ///< TMA's, a row of a box of up to 128 bytes, where there are few channels
  double line_clk = 1.9;         ///< TMA's, a line of 128 bytes that a row touches: 128x160x32 at C=1176, 352 and 160
  double one_line_clk = 1.7;     ///< the same of a row within one line: 110 us with 128x128x32 at 2,36,242,352,344,3
  double half_sector_clk = 1.1;  ///< and a row that begins within a sector of 32 bytes: C=152, 536, 712, 1016
  double im2col_rows_clk =
      120;  ///< a k-step of 32 rows: a trip to shared memory, fence, barriers; counted, not measured
  double im2col_tile_clk = 150;  ///< a tile: its window's barrier, and the next one's load; counted, not measured
  double im2col_pixels_first = 1.13,
         im2col_pingpong2 = 1.12;  ///< measured at 32,224,224,3,64,7: 35.5 and 37.2 against 32.9
  double filters_clk = 700;        ///< im2col in shared memory: a trip to memory for 4 chunks a thread; not measured
  double drain_clk = 3500;  ///< cooperative: from a tile's last k-step until the next tile's loop is at full speed
  // Epilogue: clk for each element that a thread holds, with one warp a scheduler
  double store = 17, side = 17;
  double upsampled = 3, pooled = 3;  ///< three bulk stores more of a slice; 2x2 windows of it; not measured
  double slice_32 = 1.05, slice_16 = 1.2, slice_8 = 1.7;     ///< times `store`: slices of fewer than 64 channels
  double simple = 4, special = 15, column = 3, tensor = 12;  ///< the visitors': operations, values read
  double fetched = 3, refill_clk = 600;    ///< fetched operands; a slice beyond the buffers waits; not measured
  double statistics = 5;                   ///< sums
  double keep = 6, second = 26;            ///< streamed: into shared memory; out of it, normalised
  double reload = 12;                      ///< spilled, loaded back
  double wide = 60, wide_pingpong2 = 130;  ///< streamed: an f32 result
  double drain = 40;                       ///< streamed: a tile that is loaded back when all are multiplied
  double hinted = 0.27, ordered = 0.8;     ///< shares: L2 for tiles by hints, time of bytes by the order (the notes)
  // Statistics of a tile: reduction over lanes and warps, publishing, merging; a tile, and a channel of it
  double exchange_clk = 5300, exchange_column_clk = 25, swapped_column_clk = 3;
  double publish_clk = 800;  ///< streamed: others wait
  double second_clk = 2200;  ///< a warp's trips to L2 before the second pass, of 1x1 layers; no unit is busy then
  // Rows over several tiles, a reduction: up to four tiles across, up to eight, more; 64 rows of a warpgroup beyond the
  // first; what tiles wait longer in clusters along either, of each consumer group
  double meet_few_clk = 3000, meet_some_clk = 5000, meet_many_clk = 7000, meet_rows_clk = 1500, meet_cluster_clk = 1500;
  // Cooperative, a row within a cluster: in step after cold_steps, 35.1 us at 3809,360,7248, 38.2 by 2x2; and before,
  // 14.9 at 8192,512,512
  double meet_in_cluster_clk = 500, meet_cold_cluster_clk = 2500;
  // Rows that meet a tile later: a trip to L2, by cooperative and ping-pong tiles; an element
  double deferred_clk = 2500, deferred_pingpong_clk = 3800, deferred = 3;
  int simulated_rounds = 16;  ///< those of tiles that wait for one another
  // Reductions over rows that are stored, or that elements of a general epilogue read: a trip to L2, or a counter; and
  // for each that elements read, 32 groups, one warp after another. From suite `backward` when slots were merged eight
  // at a time and plane after plane: 93.4, 59.7, 65.8 and 2,961 us were mostly these waits
  double merge_trip_clk = 900, merge_groups_clk = 8000;
  double unit_clk = 60, units_clk = 400;  ///< a group of several units: a unit of a lane, the tree over lanes; counted
  double met_tensor = 12;                 ///< an operand that they load, beyond `tensor`
  double met_special = 4, met_special_together = 32;       ///< two warps a scheduler wait for the special-function unit
  double ragged_rows = 1.08, ragged_rows_together = 1.04;  ///< tiles that are no multiple of 64 channels: 128x160
  double cold_steps = 16;                                  ///< beyond them, such a tile's operands come from L2
  double round = 4;        ///< moments of what is stored: an element, rounded ahead of its store; not measured
  double odd_unit = 1.35;  ///< times the latter, where a unit has an odd number of channels
  double pingpong2_statistics = 1.6;  ///< times an epilogue with 112 registers a thread
  double quiet = 0.72;                ///< times an epilogue without a main loop beside it
  // Waiting for the rest of the image, in halves of a consumer group's period for each row of the grid that it spans
  double first_row_wait = 0.43,
         further_row_wait = 0.80;  ///< resident; a further row is the other consumer group's tiles too
  double by_channels = 1.08;       ///< resident: the risk of an order whose waits are known least, 43.1 against 39.9 us
                                   ///< streamed at 2,96,96,256,256,3
  // What an epilogue adds to the main loop beside it, of its own length
  double beside = 0.15, beside_pingpong2 = 0.10, beside_second = 0.25;
  // Split-K: once, and for 128 channels from each partner
  double split_clk = 2000, partner_clk = 3000;
};

}  // namespace unisono::families::sm90_conv
