// What lies where in the shared memory of an epilogue that stores from registers (epilogue/fragment_epilogue.cuh), and
// in its workspace: one computation for the host and the device's compiler.
#pragma once
#include "unisono/params/sm90_shared_layout.cuh"

namespace unisono::shared_layout {

struct FragmentShape {
  int tile_n;
  bool exchanges, by_rows;  // how it normalises, if it does: over an image, over a row
  int exchanged;            // reductions that tiles exchange in place of a value's moments
  int columns_before, columns_after, late_words;
  Bytes folds;  // of stored reductions, and a general epilogue's
};
// Column values; statistics of four warps, later of a group's units; reductions.
struct FragmentLayout {
  int before, after, columns, scratch;  // scratch: statistics
  Bytes moments, at_folds, bytes;       // moments: of a warp
};
constexpr FragmentLayout fragment_layout(const FragmentShape& s, int statistic_bytes) {
  FragmentLayout l{};
  l.before = s.exchanges || s.by_rows ? s.columns_before : 0, l.after = s.columns_after;
  l.columns = l.before + l.after + (s.exchanges && s.exchanged == 0 ? 1 + int(most(2, s.late_words)) : 0);
  l.scratch = s.tile_n + 126, l.moments = s.exchanges ? Bytes{4} * s.tile_n * most(2, s.exchanged) : 0;
  const Bytes statistics = s.exchanges ? up_to(most(4 * l.moments, Bytes{l.scratch} * statistic_bytes), 16) : 0;
  l.at_folds = Bytes{4} * l.columns * s.tile_n + statistics, l.bytes = l.at_folds + s.folds;
  return l;
}

}  // namespace unisono::shared_layout
