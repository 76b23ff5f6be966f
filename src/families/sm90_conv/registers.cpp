/// Registers of a consumer's thread.

#include <algorithm>

#include "families/sm90/fields.hpp"
#include "families/sm90_conv/elements.hpp"
#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/shared_memory.hpp"

namespace unisono::families::sm90_conv {

using sm90::unfit;

namespace {

/// General: values of a thread's rows, and what a slice adds up to.
int general_registers(const ConvConfig& c, const sm90::ConvProblem& p) {
  return 8 + (c.features.in_shared ? shared_element_registers : c.tile.m / c.schedule.warpgroups() / 16) +
         p.visitor.tile_folds + p.visitor.own_words * slice_channels(c.tile.n) / 4 +
         (p.visitor.returns && !by_tma(c.features.stores) ? 24 : 0);  // 100 channels in 128x128 spilled 23 words
}

/// Reductions that tiles exchange, beside those that are stored: what a slice adds up to ahead of them, when operands
/// are on their way, too; behind them, the same with columns of eight channels. From the assembler's reports of a group
/// normalisation's backward pass with three stored sums: of 224 registers, 112 accumulators resident and 80 streamed
/// spill nothing or four words, 128 resident seven.
int exchanged_registers(const ConvConfig& c, const sm90::ConvProblem& p) {
  const int sums = (p.visitor.exchanged + p.visitor.fold_words) * 8,
            tensors = std::max(p.before.tensors, p.after.tensors);
  return 40 + sums + 12 * tensors + p.visitor.tile_folds +
         (c.streamed() ? 4 * p.after.columns : 2 * std::max(0, p.before.columns - 4));
}

/// Registers that a consumer's thread needs beside its accumulators so that the assembler spills next to nothing, from
/// its reports: 192 accumulators bare and 160 with a resident GroupNorm need none; loads of an operand [m,n] that run
/// ahead take some thirty. Small tiles are never refused: an epilogue that spills is slow, not wrong.
int epilogue_registers(const ConvConfig& c, const sm90::ConvProblem& p, int budget) {
  const bool normalises = sm90::normalises(c.mode()), pingpong2 = c.schedule.order == sm90::Order::pingpong2;
  const auto loads = [&](int tensors) {
    return tensors == 0 ? 0 : (pingpong2 ? 16 : normalises ? 32 : 36) + 12 * (tensors - 1);
  };
  int registers = normalises ? 64 : pingpong2 ? 48 : 40;
  if (c.mode() == sm90::NormMode::streamed) registers += pingpong2 ? 8 : 24;
  const int fetched = c.features.fetch.value_or(0);  // pairs of one ldmatrix each
  const int before = p.visitor.short_tensors_before ? fetched : 0;
  registers += loads(p.before.tensors - before) + loads(p.after.tensors - fetched + before) +
               (fetched == 0 ? 0
                : pingpong2  ? 12 * (fetched - 1)
                             : 8 + 4 * fetched);
  registers += 2 * std::max(0, p.before.columns + p.after.columns - (normalises ? 4 : 1));
  if (c.mode() == sm90::NormMode::general) registers += general_registers(c, p);
  if (p.visitor.exchanged > 0)
    registers = exchanged_registers(c, p);
  else if (c.streamed())
    registers += 8 * p.visitor.fold_words + p.visitor.tile_folds;
  if (c.deferred())
    registers = std::max(registers, 96);  // 64x160 a warpgroup spilled 400 to 650 bytes, 64x128 none to 144
  if (p.stores > 1) registers += slice_channels(c.tile.n) / 4;
  return std::min(registers, budget - 32);
}

}  // namespace

std::optional<plan::Refusal> refuse_registers(const ConvConfig& c, const sm90::ConvProblem& p) {
  const int budget = c.schedule.order == sm90::Order::pingpong2     ? (c.filled_by_warps() ? 104 : 112)
                     : c.filled_by_warps()                          ? 208
                     : normalises(c.mode()) || c.operands.converted ? 224
                                                                    : 232;
  const int reserve = epilogue_registers(c, p, budget),
            accumulators =
                c.tile.m / c.schedule.warpgroups() / 64 * c.multiplied_n() / 2 * (c.deferred() ? 2 : 1);  // and waiting
  if (accumulators + reserve > budget)
    return unfit("registers: {} accumulators per thread and {} for the epilogue; the limit is {}", accumulators,
                 reserve, budget)
        .exceeding(accumulators + reserve, budget);
  return {};
}

}  // namespace unisono::families::sm90_conv
