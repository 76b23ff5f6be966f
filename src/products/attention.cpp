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
// Queries (width / 2 registers a thread), or sums (value_width / 2), that leave registers for the others. Wider heads
// read queries from shared memory, and divide the values' columns among CTAs
constexpr int widest_in_registers = 256;
constexpr std::int64_t widest_in_shared = 512;
constexpr int fewest_in_block = 16;
constexpr std::uint32_t few_keys = 128, many_keys = 1024;  // that are in blocks of 32, and in blocks of 64 anyhow

int rounded_up(std::uint32_t width) { return static_cast<int>((width + 15) / 16 * 16); }

// The values' columns in as few parts as fit, of about one width
void divide_values(AttentionTiles& t, std::uint32_t value_width) {
  t.parts = (rounded_up(value_width) + widest_in_registers - 1) / widest_in_registers;
  t.value_width =
      rounded_up((value_width + static_cast<std::uint32_t>(t.parts) - 1) / static_cast<std::uint32_t>(t.parts));
}

}  // namespace

std::int64_t widest_head(const plan::Device& device) {
  if (refuse_device(device)) return 0;
  AttentionTiles t{.width = widest_in_shared, .keys = fewest_in_block};
  divide_values(t, widest_in_shared);
  return t.shared_bytes() <= device.shared_bytes ? widest_in_shared : widest_in_registers;
}

bool AttentionTiles::shares_queries() const { return width > widest_in_registers; }

// Two stages of keys and values, in rows of 8 elements more than they have (kernels/unisono/product/matrices.cuh), and
// queries
std::uint32_t AttentionTiles::shared_bytes() const {
  const int own = shares_queries() ? queries() * (width + 8) * 2 : 0;
  return static_cast<std::uint32_t>(2 * keys * (width + 8 + value_width + 8) * 2 + own);
}

AttentionTiles attention_tiles(const AttentionProblem& problem, const plan::Device& device) {
  const AttentionParams& p = problem.extents;
  AttentionTiles t{.width = rounded_up(p.width)};
  divide_values(t, p.value_width);
  const std::int64_t large_tiles = std::int64_t{count(p.batches)} * ((p.queries + 127) / 128);
  const bool narrow = t.parts == 1 && std::max(t.width, t.value_width) <= widest_of_two_atoms;
  if (narrow && p.keys > few_keys && large_tiles >= 2 * device.sms) t.atoms = 2;
  if (p.keys <= few_keys || (t.atoms == 2 && p.keys < many_keys)) t.keys = 32;
  if (t.shares_queries()) t.keys = std::min(t.keys, 32);  // one CTA an SM
  const std::size_t most = t.shares_queries() ? device.shared_bytes : most_shared;
  while (t.keys > fewest_in_block && t.shared_bytes() > most) t.keys /= 2;
  return t;
}

Kernel attention(AttentionProblem& problem, const plan::Device& device) {
  AttentionParams& p = problem.extents;
  const AttentionTiles t = attention_tiles(problem, device);
  const auto queries = static_cast<std::uint32_t>(t.queries());
  p.query_tiles = (p.queries + queries - 1) / queries;
  const bool together = (!t.shares_queries() || lies_together(p.q, problem.q_first, p.q.row, p.q.column)) &&
                        lies_together(p.k, problem.k_first, p.k.row, p.k.column) &&
                        lies_together(p.v, problem.v_first, p.v.row, p.v.column);
  Kernel k;
  k.entry = "unisono_attention";
  k.source = source_of("attention.cuh", k.entry, "AttentionParams",
                       fmt::format("attention<{}, product::AttentionShape<{}, {}, {}, {}, {}, {}, product::Lines::{}>>",
                                   codegen::element_name(problem.element), t.width, t.value_width, t.parts, t.atoms,
                                   t.keys, problem.masks, together ? "together" : "anyhow"));
  k.ctas = (support::Checked("CTAs of attention", std::int64_t{count(p.batches)}) * std::int64_t{p.query_tiles} *
            std::int64_t{t.parts})
               .to<std::uint32_t>();
  k.shared_bytes = t.shared_bytes();
  k.how = fmt::format("attention kernel, mma.sync, tiles of {} queries, {} keys at a time{}{}, {} CTAs", t.queries(),
                      t.keys, t.parts > 1 ? fmt::format(", values in {} parts", t.parts) : "",
                      together ? "" : ", gathered", k.ctas);
  return k;
}

// Tiles differ by the widths in steps of 16, by the number of keys up to the two bounds, and by whether two runs of
// queries a warp leave CTAs enough
std::vector<AttentionProblem> attention_space(const plan::Device& device) {
  std::vector<AttentionProblem> all;
  const auto widest = static_cast<std::uint32_t>(widest_head(device));
  const auto add = [&](AttentionProblem problem) {
    AttentionParams& p = problem.extents;
    for (const DType element : {DType::bf16, DType::f16})
      for (problem.masks = 0; problem.masks <= kAttentionMasks; ++problem.masks)
        for (const std::int64_t step : {1, 2}) {  // lines that lie together, and anyhow
          problem.element = element;
          for (BatchedMatrix* m : {&p.q, &p.k, &p.v}) m->row = 2 * widest, m->column = step;
          all.push_back(problem);
        }
  };
  const auto sms = static_cast<std::uint32_t>(device.sms);
  for (std::uint32_t width = 16; width <= widest; width += 16)
    for (std::uint32_t value_width = 16; value_width <= widest; value_width += 16)
      for (const std::uint32_t keys : {few_keys, many_keys - 1, many_keys})
        for (const std::uint32_t batches : {1U, 2 * sms}) {
          AttentionParams p{};
          p.batches = {{batches, 1, 1, 1}};
          p.queries = 128, p.keys = keys, p.width = width, p.value_width = value_width;
          add({.extents = p});
        }
  return all;
}

}  // namespace unisono::products
