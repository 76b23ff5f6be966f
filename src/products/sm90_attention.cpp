#include "products/sm90_attention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/pieces.hpp"
#include "support/checked.hpp"

namespace unisono::products {

namespace {

constexpr int box_columns = 64;
constexpr int narrow = 48;  // heads whose accumulators leave registers for two CTAs of two warpgroups on an SM
constexpr int middle = 64;  // above: one CTA on an SM
constexpr int wide = 128;   // above: blocks of 64 keys, as the sums have the registers
constexpr std::uint32_t widest = 256;
constexpr std::uint32_t fewest_keys = 129, many_keys = 1024;
constexpr int most_stages = 4, most_registers = 240;
constexpr std::size_t of_system = 1024;  // bytes of shared memory that every CTA has besides

int rounded_up(std::uint32_t width, int to) { return (static_cast<int>(width) + to - 1) / to * to; }
int boxes(int width) { return (width + box_columns - 1) / box_columns; }

// Axes of batches that count, the outer one first; none if there are more than two
std::optional<std::array<int, 2>> batch_axes(const BatchSpace& space) {
  std::array<int, 2> axes{-1, -1};
  int count = 0;
  for (int i = 0; i < kBatchAxes; ++i) {
    if (space.extents[i] == 1) continue;
    if (count == 2) return std::nullopt;
    axes[0] = axes[1], axes[1] = i, ++count;
  }
  return axes;
}

std::uint32_t extent(const BatchSpace& space, int axis) { return axis < 0 ? 1 : space.extents[axis]; }
std::int64_t stride(const BatchedMatrix& m, int axis) { return axis < 0 ? 0 : m.batch[axis]; }

// Extents of 1 have the stride of a row, as TMA takes no 0
MatrixMap map_of(const BatchedMatrix& m, const BatchSpace& space, std::array<int, 2> axes, std::uint32_t columns,
                 std::uint32_t rows, int box_rows) {
  MatrixMap map;
  map.extents = {columns, rows, 1, 1};
  map.strides.fill(static_cast<std::uint64_t>(2 * std::max<std::int64_t>(m.row, 8)));
  for (std::size_t i = 0; i < 2; ++i) {
    const int axis = axes[1 - i];  // the inner one first
    if (stride(m, axis) == 0) continue;
    map.extents[2 + i] = extent(space, axis);
    map.strides[1 + i] = static_cast<std::uint64_t>(2 * stride(m, axis));
  }
  map.box = {box_columns, static_cast<std::uint32_t>(box_rows), 1, 1};
  return map;
}

bool goes_forward(const BatchedMatrix& m) {
  return m.row >= 0 && std::all_of(std::begin(m.batch), std::end(m.batch), [](std::int64_t s) { return s >= 0; });
}

}  // namespace

// Queries, stages of keys and values, and barriers; boxes begin at multiples of 1,024 bytes
std::uint32_t Sm90AttentionTiles::shared_bytes() const {
  const int stage = 128 * keys * (boxes(width) + boxes(value_width));
  return static_cast<std::uint32_t>(1024 + 128 * queries() * boxes(width) + stages * stage + 8 * (1 + 4 * stages));
}

// What a launch gives to each thread, in eights, is shared out anew
int Sm90AttentionTiles::registers() const {
  const int each = 65536 / (ctas * threads()) / 8 * 8;
  return std::min(((groups + 1) * each - load_registers()) / groups / 8 * 8, most_registers);
}

std::optional<Sm90AttentionTiles> sm90_attention_tiles(const AttentionProblem& problem, const plan::Device& device) {
  const AttentionParams& p = problem.extents;
  // TMA repeats no rows
  const auto together = [](const BatchedMatrix& m, std::int64_t first) {
    return goes_forward(m) && m.row != 0 && lies_together(m, first, m.row, m.column);
  };
  if (device.major != 9 || problem.masks > 0 || std::max(p.width, p.value_width) > widest || p.keys < fewest_keys ||
      !batch_axes(p.batches) || !together(p.q, problem.q_first) || !together(p.k, problem.k_first) ||
      !together(p.v, problem.v_first))
    return std::nullopt;
  Sm90AttentionTiles t{.width = rounded_up(p.width, 16), .value_width = rounded_up(p.value_width, 8)};
  const int wider = std::max(t.width, t.value_width);
  // What was fastest of some ten kinds of tiles for each width (docs/notes/gpu-networks.md)
  if (wider <= narrow) {
    t.ctas = 2;
  } else if (wider <= middle) {
    t.groups = 1;
    t.keys = p.keys < many_keys ? 64 : 128;
    t.ctas = p.keys < many_keys ? 3 : 2;
  } else if (wider <= wide) {
    t.keys = 128;
  }
  t.stages = most_stages;
  const auto all = [&] { return (t.shared_bytes() + of_system) * static_cast<std::size_t>(t.ctas); };
  while (t.stages > 2 && all() > device.shared_bytes + of_system) --t.stages;
  return t;
}

Sm90AttentionKernel sm90_attention(const AttentionProblem& problem, const Sm90AttentionTiles& t) {
  const AttentionParams& p = problem.extents;
  const auto axes = batch_axes(p.batches).value();
  Sm90AttentionKernel k;
  Sm90AttentionParams& q = k.parameters;
  static_cast<AttentionParams&>(q) = p;
  const auto queries = static_cast<std::uint32_t>(t.queries());
  q.query_tiles = (p.queries + queries - 1) / queries;
  q.inner = extent(p.batches, axes[1]);
  const BatchedMatrix* const operands[3] = {&p.q, &p.k, &p.v};
  for (std::size_t i = 0; i < 3; ++i) {
    const BatchedMatrix& m = *operands[i];
    k.maps[i] = map_of(m, p.batches, axes, i == 2 ? p.value_width : p.width, i == 0 ? p.queries : p.keys,
                       i == 0 ? t.queries() : t.keys);
    q.inner_step[i] = stride(m, axes[1]) != 0 ? 1 : 0, q.outer_step[i] = stride(m, axes[0]) != 0 ? 1 : 0;
  }
  k.kernel.entry = "unisono_attention";
  k.kernel.threads = static_cast<std::uint32_t>(t.threads());
  k.kernel.source = source_of("sm90_attention.cuh", k.kernel.entry, "Sm90AttentionParams",
                              fmt::format("sm90_attention<{}, product::Sm90AttentionShape<{}, {}, {}, {}, {}, {}, {}>>",
                                          codegen::element_name(problem.element), t.width, t.value_width, t.groups,
                                          t.keys, t.stages, t.registers(), t.load_registers()),
                              fmt::format("{}, {}", k.kernel.threads, t.ctas));
  k.kernel.ctas = (support::Checked("CTAs of attention", std::int64_t{count(p.batches)}) * std::int64_t{q.query_tiles})
                      .to<std::uint32_t>();
  k.kernel.shared_bytes = t.shared_bytes();
  k.kernel.how = fmt::format("attention kernel, wgmma, tiles of {} queries, {} keys at a time, {} stages, {} CTAs",
                             t.queries(), t.keys, t.stages, k.kernel.ctas);
  return k;
}

// Tiles differ by the widths, in steps of 16 and of 8, and by the number of keys up to the bound
std::vector<AttentionProblem> sm90_attention_space() {
  std::vector<AttentionProblem> all;
  for (std::uint32_t width = 16; width <= widest; width += 16)
    for (std::uint32_t value_width = 8; value_width <= widest; value_width += 8)
      for (const std::uint32_t keys : {fewest_keys, many_keys})
        for (const DType element : {DType::bf16, DType::f16}) {
          AttentionProblem problem{.element = element};
          AttentionParams& p = problem.extents;
          p.batches = {{1, 1, 1, 1}};
          p.queries = 128, p.keys = keys, p.width = width, p.value_width = value_width;
          for (BatchedMatrix* m : {&p.q, &p.k, &p.v}) m->row = widest, m->column = 1;
          all.push_back(problem);
        }
  return all;
}

}  // namespace unisono::products
