// What a configuration needs, and what refuses it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "families/cutlass_evt/problem.hpp"
#include "families/cutlass_evt/warps.hpp"
#include "support/checked.hpp"
#include "unisono/params/cutlass_evt_params.cuh"

namespace unisono::families::cutlass_evt {
namespace {

// As CUTLASS's builder chooses the epilogue's tile for 16-bit and 32-bit results
int subtile_rows(const Config& c) {
  if (c.subtile_m != 0) return c.subtile_m;
  return std::min(c.schedule == Schedule::cooperative ? 128 : 64, c.tile_m);
}
int subtile_columns(const Config& c) { return c.subtile_n != 0 ? c.subtile_n : std::min(32, c.tile_n); }

std::optional<Refusal> broken(std::string_view rule, std::string reason) {
  return Refusal{.scope = Refusal::Scope::plan, .reasons = {std::move(reason)}, .rule = {.text = rule}};
}

std::size_t epilogue_bytes_3x(const Config& c, const Visitors& v) {
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

// Accumulators pass through shared memory, eight rows of each row of warps at a time; a VisitorRowReduction keeps what
// every thread has summed up
std::size_t epilogue_bytes_2x(const Config& c, const Visitors& v) {
  const Warps w = warps_of(c);
  auto bytes = static_cast<std::size_t>(8 * w.down * (c.tile_n + 8) * 4 * c.products);
  // Sixteen threads read 256 bytes of a row of D
  const int vector = static_cast<int>(16 / size_of(v.element_d));
  const int partial = w.threads() * std::max(vector, c.tile_n / 16);
  for (const Visitor& each : v.list)
    if (each.kind == VisitorKind::row_reduction) bytes += static_cast<std::size_t>(partial) * 4;
  return bytes;
}

}  // namespace

std::size_t stage_bytes(const Config& c) {
  return static_cast<std::size_t>(c.tile_m + c.tile_n) * static_cast<std::size_t>(c.tile_k) * size_of(c.a);
}

std::size_t epilogue_bytes(const Config& c, const Visitors& v) {
  return is_2x(c.arch) ? epilogue_bytes_2x(c, v) : epilogue_bytes_3x(c, v);
}

std::int64_t tiles_of(const Config& c, const plan::ConvTask& task) {
  const Extents e = extents(task.contraction());
  const auto up = [](std::int64_t x, std::int64_t by) { return (x + by - 1) / by; };
  const std::int64_t rows = task.batched ? e.rows_per_image() : e.rows();
  return up(rows, c.tile_m) * up(e.cols, c.tile_n) * (task.batched ? e.images : 1);
}

int fitting_stages(const Config& c, const Visitors& v, const plan::Device& device) {
  return std::max(4 * stage_bytes(c), epilogue_bytes(c, v)) <= device.shared_bytes ? 4 : 3;
}

// Our tables; then CUTLASS's tensor maps: of A, B, C and D, which two warpgroups store, for each SM
std::size_t grouped_bytes(const Visitors& v, int sms) {
  constexpr std::size_t maps_of_sm = 5, map_bytes = 128, rounding = 4 * 64;
  return tables_of(v) * kGroupTableBytes + maps_of_sm * map_bytes * static_cast<std::size_t>(sms) + rounding;
}

std::size_t workspace_bytes(const Config& c, const Visitors& v, const plan::ConvTask& task, int sms) {
  const Extents e = extents(task.contraction());
  const auto up = [](std::int64_t x, std::int64_t by) { return (x + by - 1) / by; };
  const std::int64_t down = up(e.rows_per_image(), c.tile_m), across = up(e.cols, c.tile_n);
  if (is_2x(c.arch)) return 0;  // results are added to where they lie
  if (c.grouped) return grouped_bytes(v, sms);
  support::Checked bytes("bytes of workspace", 0);
  for (const Visitor& each : v.list) {
    const bool row = each.kind == VisitorKind::row_reduction, column = each.kind == VisitorKind::column_reduction;
    if (!row && !column) continue;
    bytes = bytes + support::Checked("bytes of workspace", down) * across * e.images * (row ? c.tile_n : c.tile_m) * 4;
    bytes = bytes + (row ? across : down) * e.images * 4 + 64;  // counters; both parts are aligned to 16 bytes
  }
  return bytes.to<std::size_t>();
}

namespace {

std::optional<Refusal> refuse_shared(const Config& c, const Visitors& v, const Workload& w) {
  const std::size_t barriers = is_2x(c.arch) ? 0 : 2048;
  const std::size_t operands = static_cast<std::size_t>(std::max(2, c.stages)) * stage_bytes(c);
  const std::size_t epilogue = epilogue_bytes(c, v);
  const std::size_t needed = is_2x(c.arch) ? std::max(operands, epilogue) : operands + epilogue + barriers;
  if (needed <= w.device.shared_bytes) return {};
  return std::move(*broken("shared memory",
                           fmt::format("shared memory: {} stages of {} bytes and {} of the epilogue "
                                       "are {} bytes; a CTA may have {}",
                                       std::max(2, c.stages), stage_bytes(c), epilogue, needed, w.device.shared_bytes)))
      .exceeding(static_cast<double>(needed), static_cast<double>(w.device.shared_bytes));
}

// TMA's im2col loads: the filter's corner is 8 bits, its taps' offsets too, and pixels are strided by up to 8
std::optional<Refusal> refuse_window_3x(const Config& c, const Conv2d& conv) {
  if (!c.convolution) return {};
  const auto fits = [&](std::int64_t before, std::int64_t after, std::int64_t taps, std::int64_t dilation,
                        std::int64_t stride) {
    const std::int64_t reach = (taps - 1) * dilation;
    if (c.transposed) return before <= 127 && before - reach >= -128 && after <= 128 && reach < 255;
    return before <= 128 && after - reach >= -128 && after - reach <= 127 && reach < 255 && stride <= 8;
  };
  if (fits(conv.pad.top, conv.pad.bottom, conv.r, conv.dilation.h, conv.stride.h) &&
      fits(conv.pad.left, conv.pad.right, conv.s, conv.dilation.w, conv.stride.w))
    return {};
  return broken("window",
                "layout: TMA's im2col takes borders up to 128, (taps - 1) times dilation up to 128 beyond them, and "
                "strides up to 8");
}

// A tile of columns is of one tap (kernels/unisono/cutlass/sm90_wgrad.cuh)
std::optional<Refusal> refuse_gradient(const Config& c, const Conv2d& conv) {
  if (!c.gradient) return {};
  if (c.arch != Arch::sm90a)
    return broken("contraction", fmt::format("contraction: a gradient of filters; this family has kernels for it on "
                                             "arch=sm90a, not on arch={}",
                                             to_string(c.arch)));
  if (conv.c % c.tile_n == 0) return {};
  return broken("gradient tile", fmt::format("tile: {} columns; a gradient of filters has its columns tap by tap, so "
                                             "a tile's are a divisor of the {} channels",
                                             c.tile_n, conv.c));
}

std::optional<Refusal> refuse_grouped(const Config& c, const Visitors& v) {
  if (!c.grouped) return {};
  if (is_2x(c.arch))
    return broken("contraction", fmt::format("contraction: a grouped product; this family has kernels for it on "
                                             "arch=sm90a and sm100a, not on arch={}",
                                             to_string(c.arch)));
  // Arguments of AuxLoad, AuxStore and the reductions have one address, and one step from matrix to matrix
  for (const Visitor& each : v.list)
    if (each.kind == VisitorKind::aux_load || each.kind == VisitorKind::aux_store ||
        each.kind >= VisitorKind::scalar_reduction)
      return broken("node",
                    fmt::format("node: {}: of a grouped product CUTLASS's visitors load one operand [m,n], store one "
                                "result [m,n], and have no reductions; compute it in a separate launch",
                                each.name));
  return {};
}

std::optional<Refusal> refuse_transposed(const Config& c) {
  if (!c.transposed || c.arch == Arch::sm90a) return {};
  return broken("contraction", fmt::format("contraction: a transposed convolution; this family has kernels for it on "
                                           "arch=sm90a, not on arch={}",
                                           to_string(c.arch)));
}

std::optional<Refusal> refuse_dual(const Config& c) {
  if (c.products == 1 || is_2x(c.arch)) return {};
  return broken("dual product", fmt::format("contraction: a dual product; this family has a kernel for it on arch=sm80 "
                                            "and sm120, not on arch={}",
                                            to_string(c.arch)));
}

std::optional<Refusal> refuse_schedule(const Config& c) {
  const bool alone = c.convolution || c.arch == Arch::sm100a;
  if (alone != (c.schedule == Schedule::warp_specialized))
    return broken("schedule", fmt::format("order: {}; on arch={} CUTLASS's {} have {}", to_string(c.schedule),
                                          to_string(c.arch), c.convolution ? "convolutions" : "products",
                                          alone ? "warpspecialized alone" : "cooperative and pingpong"));
  if (alone && c.cluster_m * c.cluster_n != 1)
    return broken("cluster", fmt::format("cluster: {}x{}; with order=warpspecialized CTAs work by themselves, 1x1",
                                         c.cluster_m, c.cluster_n));
  return {};
}

// Accumulators are in tensor memory
std::optional<Refusal> refuse_sm100(const Config& c) {
  if (c.tile_m > 128)
    return broken("tile", fmt::format("tile: {} rows; an SM multiplies 64 or 128 by itself", c.tile_m));
  if (c.subtile_m != 0) return broken("subtile", "subtile: on arch=sm100a CUTLASS chooses it; leave it out");
  return {};
}

std::optional<Refusal> refuse_3x(const Config& c, const Workload& w) {
  if (auto refusal = refuse_window_3x(c, w.task.conv)) return refusal;
  if (auto refusal = refuse_schedule(c)) return refusal;
  if (c.a == DType::tf32 && (w.task.columns_a || w.task.columns_b))
    return broken("layout",
                  "layout: tf32 matrices are multiplied along rows of k alone: A (m, k) and B (n, k). Transpose the "
                  "other");
  const auto is_multiple = [](int x, int of) { return x >= of && x % of == 0; };
  if (!is_multiple(c.tile_m, 64) || c.tile_m > 256 || !is_multiple(c.tile_n, 16) || c.tile_n > 256)
    return broken("tile",
                  fmt::format("tile: {}x{}; expected rows a multiple of 64 and columns a multiple of 16, both up "
                              "to 256",
                              c.tile_m, c.tile_n));
  if (c.schedule == Schedule::cooperative && c.tile_m % 128 != 0)
    return broken("cooperative tile",
                  fmt::format("tile: {} rows; two cooperative warpgroups share a multiple of 128", c.tile_m));
  if (c.arch == Arch::sm100a) return refuse_sm100(c);
  if (c.schedule != Schedule::cooperative && c.tile_m * c.tile_n > 128 * 128)
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
  return {};
}

// A grid has 65535 CTAs along its second and third extent
std::optional<Refusal> refuse_grid(const Config& c, const Workload& w) {
  constexpr std::int64_t most = 65535;
  const Extents e = extents(w.task.contraction());
  const std::int64_t across = (e.cols + c.tile_n - 1) / c.tile_n, matrices = w.task.batched ? e.images : 1;
  if (across <= most && matrices <= most) return {};
  return broken("grid", fmt::format("size: {} tiles of columns and {} matrices; a launch of CUTLASS 2.x has at most {} "
                                    "of each",
                                    across, matrices, most));
}

// Iterators of CUTLASS 2.x have a bit for each of 32 taps along an extent, and offsets of 31 bits
std::optional<Refusal> refuse_window_2x(const Config& c, const Conv2d& conv) {
  if (!c.convolution) return {};
  if (conv.r > 32 || conv.s > 32)
    return broken("window",
                  fmt::format("layout: a filter of {}x{} taps; CUTLASS 2.x takes up to 32x32", conv.r, conv.s));
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  support::Narrowing narrowing;
  const auto take = [&](std::int64_t rows, std::int64_t columns) {
    narrowing.as<std::int32_t>(support::Checked("elements of an operand", rows) * columns * conv.c);
  };
  take(conv.n * conv.h + std::max(conv.pad.top, conv.pad.bottom), conv.w + std::max(conv.pad.left, conv.pad.right));
  take(conv.k, conv.r * conv.s);
  if (narrowing.beyond())
    return broken("size", fmt::format("size: an operand, with the image's border, has more than {} elements", most));
  return {};
}

std::optional<Refusal> refuse_2x(const Config& c, const Workload& w) {
  if (auto refusal = refuse_window_2x(c, w.task.conv)) return refusal;
  const auto is_extent = [](int x) { return x == 64 || x == 128 || x == 256; };
  if (!is_extent(c.tile_m) || !is_extent(c.tile_n))
    return broken("tile", fmt::format("tile: {}x{}; kernels of CUTLASS 2.x have 64, 128 or 256 rows and columns here",
                                      c.tile_m, c.tile_n));
  if (c.tile_m * c.tile_n > 256 * 128)
    return broken("registers",
                  fmt::format("registers: a tile of {}x{}; at most 256x128 or 128x256", c.tile_m, c.tile_n));
  const int threads = warps_of(c).threads(), per_thread = c.products * c.tile_m * c.tile_n / threads;
  if (per_thread > 128)
    return broken("registers",
                  fmt::format("registers: two accumulators of a tile of {}x{} are {} of a thread; at most 128: 64x64, "
                              "128x64, 64x128, 256x64 or 64x256",
                              c.tile_m, c.tile_n, per_thread));
  const auto depth_bytes = static_cast<std::size_t>(c.tile_k) * size_of(c.a);
  if (c.tile_k > 64 || depth_bytes > 128)
    return broken("depth",
                  fmt::format("depth: {} elements of {} are {} bytes; CUTLASS 2.x takes 32 or 64 elements of at "
                              "most 128 bytes",
                              c.tile_k, to_string(c.a), depth_bytes));
  if (c.stages < 3 || c.stages > 10)
    return broken("stages", fmt::format("stages: {}; loads by cp.async take 3 to 10", c.stages));
  return refuse_grid(c, w);
}

}  // namespace

std::optional<Refusal> refuse(const Config& c, const Visitors& v, const Workload& w) {
  if (auto refusal = refuse_transposed(c)) return refusal;
  if (auto refusal = refuse_dual(c)) return refusal;
  if (auto refusal = refuse_gradient(c, w.task.conv)) return refusal;
  if (auto refusal = refuse_grouped(c, v)) return refusal;
  if (auto refusal = is_2x(c.arch) ? refuse_2x(c, w) : refuse_3x(c, w)) return refusal;
  return refuse_shared(c, v, w);
}

}  // namespace unisono::families::cutlass_evt
