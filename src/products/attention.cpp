#include "products/attention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/pieces.hpp"
#include "support/checked.hpp"

namespace unisono::products {

namespace {

// With two stages, two CTAs find place on every SM from sm_80 on
constexpr std::uint32_t most_shared = 80 << 10;
// Two runs of queries a warp read keys from shared memory half as often, at the price of CTAs beside each other: it
// pays where there are CTAs enough, for heads whose sums, weights and queries are held in registers
constexpr int widest_of_two_atoms = 64;
constexpr std::uint32_t few_keys = 128, many_keys = 1024;  // that are in blocks of 32, and in blocks of 64 anyhow

int rounded_up(std::uint32_t width) { return static_cast<int>((width + 15) / 16 * 16); }

}  // namespace

// Two stages of keys and values, in rows of 8 elements more than they have (kernels/unisono/product/matrices.cuh)
std::uint32_t AttentionTiles::shared_bytes() const {
  return static_cast<std::uint32_t>(2 * keys * (width + 8 + value_width + 8) * 2);
}

AttentionTiles attention_tiles(const AttentionProblem& problem, const plan::Device& device) {
  const AttentionParams& p = problem.extents;
  AttentionTiles t{.width = rounded_up(p.width), .value_width = rounded_up(p.value_width)};
  const std::int64_t large_tiles = std::int64_t{count(p.batches)} * ((p.queries + 127) / 128);
  const bool narrow = std::max(t.width, t.value_width) <= widest_of_two_atoms;
  if (narrow && p.keys > few_keys && large_tiles >= 2 * device.sms) t.atoms = 2;
  if (p.keys <= few_keys || (t.atoms == 2 && p.keys < many_keys)) t.keys = 32;
  while (t.keys > 16 && t.shared_bytes() > most_shared) t.keys /= 2;
  return t;
}

Kernel attention(AttentionProblem& problem, const plan::Device& device) {
  AttentionParams& p = problem.extents;
  const AttentionTiles t = attention_tiles(problem, device);
  const auto queries = static_cast<std::uint32_t>(t.queries());
  p.query_tiles = (p.queries + queries - 1) / queries;
  const bool together = lies_together(p.k, problem.k_first, p.k.row, p.k.column) &&
                        lies_together(p.v, problem.v_first, p.v.row, p.v.column);
  Kernel k;
  k.entry = "unisono_attention";
  k.source = source_of("attention.cuh", k.entry, "AttentionParams",
                       fmt::format("attention<{}, product::AttentionShape<{}, {}, {}, {}, {}, product::Lines::{}>>",
                                   codegen::element_name(problem.element), t.width, t.value_width, t.atoms, t.keys,
                                   problem.masks, together ? "together" : "anyhow"));
  k.ctas = (support::Checked("CTAs of attention", std::int64_t{count(p.batches)}) * std::int64_t{p.query_tiles})
               .to<std::uint32_t>();
  k.shared_bytes = t.shared_bytes();
  k.how = fmt::format("attention kernel, mma.sync, tiles of {} queries, {} keys at a time{}, {} CTAs", t.queries(),
                      t.keys, together ? "" : ", gathered", k.ctas);
  return k;
}

}  // namespace unisono::products
