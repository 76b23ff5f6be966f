#include "families/cutlass_evt/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "families/cutlass_evt/visitors_of.hpp"
#include "support/checked.hpp"

namespace unisono::families::cutlass_evt {
namespace {

using Reasons = std::vector<std::string>;

constexpr std::int64_t int_limit = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t vector_bytes = 16;  // of TMA's rows, and of the visitors' loads and stores

bool is_word(DType t) { return t == DType::f32 || t == DType::tf32; }
bool is_factor(DType t) { return t == DType::bf16 || t == DType::f16 || is_word(t); }

bool is_product(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  return !t.transposed && !t.volume && c.r == 1 && c.s == 1 && c.groups == 1 && c.stride == Pair(1) &&
         c.pad == Margins(0) && (c.layout == Layout::nhwc || (c.h == 1 && c.w == 1));
}

void check_row(const char* what, std::int64_t elements, DType t, Reasons& reasons) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(t);
  if (bytes % vector_bytes != 0)
    reasons.push_back(fmt::format(
        "alignment: rows of {} are {} elements of {}, {} bytes; CUTLASS's kernels move whole multiples of {} bytes. "
        "Pad the rows",
        what, elements, to_string(t), bytes, vector_bytes));
}

void check_factors(const plan::ConvTask& t, Reasons& reasons) {
  const Conv2d& c = t.conv;
  if (!is_product(t)) {
    reasons.emplace_back(
        "contraction: this family multiplies matrices; convolutions of more than one tap, strides, borders, groups and "
        "volumes have no kernel in it");
    return;
  }
  if (t.products != 1) {
    reasons.emplace_back("contraction: a dual product; multiply twice");
    return;
  }
  if (!(c.dtype_x == c.dtype_w || (is_word(c.dtype_x) && is_word(c.dtype_w))) || !is_factor(c.dtype_x))
    reasons.push_back(
        fmt::format("dtypes: the operands are {} and {}; expected both bf16, both f16 or both f32, "
                    "which is multiplied as tf32",
                    to_string(c.dtype_x), to_string(c.dtype_w)));
  if (is_word(c.dtype_x) && (t.columns_a || t.columns_b))
    reasons.emplace_back(
        "layout: tf32 matrices are multiplied along rows of k alone: A (m, k) and B (n, k). Transpose the other");
  const Extents e = extents(t.contraction());
  check_row("A", t.columns_a ? e.rows_per_image() : c.c, c.dtype_x, reasons);
  check_row("B", t.columns_b ? c.k : c.c, c.dtype_w, reasons);
  for (const auto& [what, extent] :
       {std::pair{"rows", e.rows()}, {"columns", e.cols}, {"k", c.c}, {"matrices", e.images}})
    if (extent > int_limit)
      reasons.push_back(fmt::format("size: the number of {} is {}; at most {}", what, extent, int_limit));
}

bool is_matrix(VisitorKind kind) {
  return kind == VisitorKind::source || kind == VisitorKind::aux_load || kind == VisitorKind::aux_store;
}

void check_matrices(const Visitors& v, std::int64_t columns, Reasons& reasons) {
  check_row("D", columns, v.element_d, reasons);
  for (const Visitor& each : v.list)
    if (is_matrix(each.kind)) check_row(each.name.c_str(), columns, each.element, reasons);
}

// Where one B serves all rows they are one matrix, and visitors do not know images
void check_images(const Visitors& v, const plan::ConvTask& t, Reasons& reasons) {
  if (t.batched || t.conv.n == 1) return;
  for (const Visitor& each : v.list) {
    const bool scalar = std::ranges::any_of(each.scalars, &Scalar::per_batch);
    const bool vector = each.per_batch && (each.kind == VisitorKind::row || each.kind == VisitorKind::row_reduction ||
                                           each.kind == VisitorKind::scalar_reduction);
    if (scalar || vector)
      reasons.push_back(
          fmt::format("layout: {} has a value for each of {} images, which are rows of one matrix here; "
                      "multiply them as a batch",
                      each.name, t.conv.n));
  }
}

// As CUTLASS's builder chooses the epilogue's tile for 16-bit and 32-bit results
int subtile_rows(const Config& c) {
  if (c.subtile_m != 0) return c.subtile_m;
  return std::min(c.schedule == Schedule::cooperative ? 128 : 64, c.tile_m);
}
int subtile_columns(const Config& c) { return c.subtile_n != 0 ? c.subtile_n : std::min(32, c.tile_n); }

std::optional<Refusal> broken(std::string_view rule, std::string reason) {
  return Refusal{.scope = Refusal::Scope::plan, .reasons = {std::move(reason)}, .rule = {.text = rule}};
}

}  // namespace

std::optional<Refusal> refuse_device(const plan::Device& d) {
  if (d.major == 9) return {};
  return Refusal{Refusal::Scope::device,
                 {fmt::format("architecture: CUTLASS's visitors are generated for sm_90a; this device is sm_{}{}",
                              d.major, d.minor)}};
}

std::vector<std::string> refuse(const Workload& w) {
  Reasons reasons;
  check_factors(w.task, reasons);
  const auto visitors = visitors_of(w.epilogue, {}, true, true);
  if (!visitors) {
    const auto& why = visitors.refusal().reasons;
    reasons.insert(reasons.end(), why.begin(), why.end());
  } else if (is_product(w.task)) {
    check_matrices(*visitors, w.task.conv.k, reasons);
    check_images(*visitors, w.task, reasons);
  }
  return reasons;
}

std::size_t stage_bytes(const Config& c) {
  return static_cast<std::size_t>(c.tile_m + c.tile_n) * static_cast<std::size_t>(c.tile_k) * size_of(c.a);
}

std::size_t epilogue_bytes(const Config& c, const Visitors& v) {
  const int rows = subtile_rows(c), columns = subtile_columns(c);
  const std::size_t subtile = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  const int subtiles = (c.tile_m / rows) * (c.tile_n / columns);
  const auto stages_d = static_cast<std::size_t>(std::min(subtiles, 2));
  const auto stages_c = static_cast<std::size_t>(std::min(subtiles, 4));
  std::size_t bytes = v.source_field
                          ? std::max(stages_c * size_of(v.element_c), stages_d * size_of(v.element_d)) * subtile
                          : stages_d * size_of(v.element_d) * subtile;
  for (const Visitor& each : v.list) {
    if (each.kind == VisitorKind::row) bytes += static_cast<std::size_t>(c.tile_n) * size_of(each.element);
  }
  return bytes;
}

std::size_t workspace_bytes(const Config& c, const Visitors& v, const plan::ConvTask& task) {
  const Extents e = extents(task.contraction());
  const auto up = [](std::int64_t x, std::int64_t by) { return (x + by - 1) / by; };
  const std::int64_t down = up(e.rows_per_image(), c.tile_m), across = up(e.cols, c.tile_n);
  support::Checked bytes("bytes of workspace", 0);
  for (const Visitor& each : v.list) {
    const bool row = each.kind == VisitorKind::row_reduction, column = each.kind == VisitorKind::column_reduction;
    if (!row && !column) continue;
    bytes = bytes + support::Checked("bytes of workspace", down) * across * e.images * (row ? c.tile_n : c.tile_m) * 4;
    bytes = bytes + (row ? across : down) * e.images * 4 + 64;  // counters; both parts are aligned to 16 bytes
  }
  return bytes.to<std::size_t>();
}

std::optional<Refusal> refuse(const Config& c, const Visitors& v, const Workload& w) {
  const auto is_multiple = [](int x, int of) { return x >= of && x % of == 0; };
  if (!is_multiple(c.tile_m, 64) || c.tile_m > 256 || !is_multiple(c.tile_n, 16) || c.tile_n > 256)
    return broken("tile",
                  fmt::format("tile: {}x{}; expected rows a multiple of 64 and columns a multiple of 16, both up "
                              "to 256",
                              c.tile_m, c.tile_n));
  if (c.schedule == Schedule::cooperative && c.tile_m % 128 != 0)
    return broken("cooperative tile",
                  fmt::format("tile: {} rows; two cooperative warpgroups share a multiple of 128", c.tile_m));
  if (c.schedule == Schedule::pingpong && c.tile_m * c.tile_n > 128 * 128)
    return broken("pingpong tile", fmt::format("registers: a warpgroup has a tile of {}x{} by itself; at most 128x128",
                                               c.tile_m, c.tile_n));
  if (c.tile_m * c.tile_n > 256 * 128)
    return broken("registers",
                  fmt::format("registers: a tile of {}x{}; at most 256x128 or 128x256", c.tile_m, c.tile_n));
  if (c.cluster_m * c.cluster_n > 8)
    return broken("cluster", fmt::format("cluster: {} CTAs; at most 8", c.cluster_m * c.cluster_n));
  // A warpgroup stores 64 rows of a subtile, two cooperative ones 128
  const int rows = c.schedule == Schedule::cooperative ? 128 : 64;
  if (c.tile_n % subtile_columns(c) != 0 || subtile_rows(c) != rows || subtile_columns(c) % 16 != 0)
    return broken("subtile", fmt::format("subtile: {}x{} of a tile of {}x{}; expected {} rows, and a divisor of the "
                                         "tile's columns, a multiple of 16",
                                         subtile_rows(c), subtile_columns(c), c.tile_m, c.tile_n, rows));
  const std::size_t barriers = 2048;
  const std::size_t needed =
      epilogue_bytes(c, v) + static_cast<std::size_t>(std::max(2, c.stages)) * stage_bytes(c) + barriers;
  if (needed > w.device.shared_bytes)
    return std::move(*broken("shared memory", fmt::format("shared memory: {} stages of {} bytes and {} of the epilogue "
                                                          "are {} bytes; a CTA may have {}",
                                                          std::max(2, c.stages), stage_bytes(c), epilogue_bytes(c, v),
                                                          needed, w.device.shared_bytes)))
        .exceeding(static_cast<double>(needed), static_cast<double>(w.device.shared_bytes));
  return {};
}

}  // namespace unisono::families::cutlass_evt
