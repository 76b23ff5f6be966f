#include "families/sm90_conv/tensor_maps.hpp"

#include <algorithm>

#include "families/sm90_conv/shared_memory.hpp"

namespace unisono::families::sm90_conv {

namespace {

constexpr std::uint32_t box_columns = 64;  // of an operand (k, m) or (k, n): the 128 bytes that a swizzle spans

std::uint64_t u64(std::int64_t x) { return static_cast<std::uint64_t>(x); }
std::uint32_t u32(std::int64_t x) { return static_cast<std::uint32_t>(x); }

// Strides of a dense tensor of these extents
MapShape dense(int rank, const std::array<std::uint64_t, 5>& extents, std::uint64_t bytes) {
  MapShape m{.rank = rank, .extents = extents, .element_bytes = bytes};
  std::uint64_t stride = bytes;
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(rank); ++i) m.strides[i] = stride *= extents[i];
  return m;
}

MapShape tiled(int rank, const std::array<std::uint64_t, 5>& extents, const std::array<std::uint32_t, 5>& box,
               std::uint64_t bytes = 2) {
  MapShape m = dense(rank, extents, bytes);
  m.box = box;
  m.swizzle_bytes = static_cast<int>(box[0] * bytes);
  return m;
}

// The same walk over the planes of volumes, too
MapShape volume_shape(const Conv3d& v, const ConvConfig& k) {
  const std::uint64_t bytes = size_of(k.element);
  MapShape m = dense(5, {u64(v.c), u64(v.w), u64(v.h), u64(v.d), u64(v.n)}, bytes);
  m.im2col = true;
  const Triple taps(v.t, v.r, v.s);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    m.lower[2 - axis] = static_cast<int>(-v.before[axis]);
    m.upper[2 - axis] = static_cast<int>(v.after[axis] - (taps[axis] - 1) * v.dilation[axis]);
    m.steps[3 - axis] = u32(v.stride[axis]);
  }
  m.channels = u32(k.atom_k());
  m.pixels = u32(k.tile.m);
  m.swizzle_bytes = static_cast<int>(static_cast<std::uint64_t>(k.atom_k()) * bytes);
  return m;
}

// Halo tiles are boxes of 8 pixels by the tile's image rows, with their halo. For im2col tiles the filter's corner
// walks over the padded image by the stride, and each tap is an offset from there. Rows of k are as long as a swizzle
// spans: a step of 128 elements takes two such boxes, and one of columns.
MapShape activation_shape(const plan::ConvTask& task, const ConvPlan& plan) {
  const Conv2d& c = task.conv;
  const ConvConfig& k = plan.config;
  if (k.loads(Im2colTile::Box::voxels)) return volume_shape(*task.volume, k);
  const std::uint64_t bytes = size_of(k.element);
  if (k.loads(Im2colTile::Box::rows))
    return tiled(3, {u64(c.c), u64(plan.rows), u64(plan.images), 1}, {u32(k.atom_k()), u32(k.tile.m), 1, 1}, bytes);
  if (k.loads(Im2colTile::Box::columns))
    return tiled(3, {u64(c.h * c.w), u64(c.c), u64(c.n), 1}, {box_columns, u32(k.tile.k), 1, 1});
  const std::array<std::uint64_t, 5> extents{u64(c.c), u64(c.w), u64(c.h), u64(c.n)};
  if (k.window()) return window_shape(c, k, k.window()->by_lines());
  const auto [top, left, bottom, right] = c.pad;
  const std::int64_t halo_h = (c.r - 1) * c.dilation[0], halo_w = (c.s - 1) * c.dilation[1];
  if (k.halo() && task.volume) {
    const Conv3d& v = *task.volume;
    return tiled(5, {u64(v.c), u64(v.w), u64(v.h), u64(v.d), u64(v.n)},
                 {u32(k.atom_k()), u32(8 + k.halo()->halo_w), u32(k.tile.m / 8 + k.halo()->halo_h), 1, 1}, bytes);
  }
  if (k.halo()) return tiled(4, extents, {u32(k.atom_k()), u32(8 + halo_w), u32(k.tile.m / 8 + halo_h), 1}, bytes);
  MapShape m = dense(4, extents, bytes);
  m.im2col = true;
  m.lower = {static_cast<int>(-left), static_cast<int>(-top)};
  m.upper = {static_cast<int>(right - halo_w), static_cast<int>(bottom - halo_h)};
  m.channels = u32(k.atom_k());
  m.pixels = u32(k.tile.m);
  m.steps = {1, u32(c.stride[1]), u32(c.stride[0]), 1, 1};
  m.swizzle_bytes = static_cast<int>(static_cast<std::uint64_t>(k.atom_k()) * bytes);
  return m;
}

// Channels first: a quarter of a slice's channels, of 64 consecutive pixels, or of 8 pixels of 8 image rows.
MapShape planes_shape(const Conv2d& c, const ConvPlan& plan, const Extents& e) {
  const std::uint32_t channels = u32(slice_channels(plan.config.tile.n) / 4);
  const std::uint64_t plane = u64(e.rows_per_image()) * 2, images = u64(plan.images);
  if (!plan.config.two_dimensional())
    return tiled(4, {u64(e.rows_per_image()), u64(c.k), 1, images}, {64, channels, 1, 1});
  MapShape m = tiled(4, {u64(e.width), u64(c.k), u64(e.height), images}, {8, channels, 8, 1});
  m.strides = {plane, u64(e.width) * 2, plane * u64(c.k)};
  return m;
}

// A warp stores slices of 16 rows: 16 consecutive pixels, or, of a two-dimensional tile, 8 pixels of 2 image rows. What
// hangs over an image's edge, or a plane's of a volume, or over the last channel, TMA leaves out. The map of what is
// upsampled knows image rows: 16 pixels are a part of one, or several of them.
MapShape output_shape(const plan::ConvTask& task, const ConvPlan& plan) {
  const Conv2d& c = task.conv;
  const Extents e = extents(task.contraction());
  if (plan.config.features.stores == sm90::Stores::planes_tma) return planes_shape(c, plan, e);
  const bool two_dimensional = plan.config.two_dimensional(),
             lined = !two_dimensional && plan.config.features.resampling.upsampled;
  const std::int64_t across = two_dimensional || lined ? e.width : plan.rows;
  const std::int64_t lines = two_dimensional ? e.height : lined ? plan.rows / std::max<std::int64_t>(1, e.width) : 1;
  const std::uint32_t slice = u32(slice_channels(plan.config.tile.n));
  const std::uint32_t pixels = two_dimensional ? 8 : lined ? u32(std::min<std::int64_t>(16, e.width)) : 16;
  const std::int64_t planes = plan.config.halo() && task.volume ? output_planes(*task.volume) : 1;
  return tiled(4, {u64(c.k), u64(across), u64(lines / planes), u64(plan.images * planes)},
               {slice, pixels, 16 / pixels, 1});
}

// By phases: 64 filters of one tap, of some channels (C, R, S, K); the same of flipped taps, an atom's channels. One
// tap of some filters; of products B (batch, n, k), or boxes of 64 columns of B (batch, k, n).
MapShape filter_shape(const plan::ConvTask& t, const ConvConfig& k) {
  const Conv2d& c = t.conv;
  const std::int64_t products = k.operands.batched ? c.n : 1;
  const std::uint64_t bytes = size_of(k.element);
  if (t.phases)
    return tiled(4, {u64(c.k), u64(t.transposed->s), u64(t.transposed->r), u64(c.c)},
                 {box_columns, 1, 1, u32(k.tile.k)});
  if (k.operands.flipped)
    return tiled(3, {u64(c.k), u64(c.r * c.s), u64(c.c), 1}, {box_columns, 1, u32(k.atom_k()), 1});
  if (k.columns_b()) return tiled(3, {u64(c.k), u64(c.c), u64(products), 1}, {box_columns, u32(k.tile.k), 1, 1});
  if (k.gathered() && !k.operands.batched)
    return tiled(3, {u64(c.r * c.s * (c.c / c.groups)), 1, u64(c.k), 1}, {u32(k.atom_k()), 1, u32(k.tile.n), 1}, bytes);
  if (k.operands.batched)
    return tiled(3, {u64(c.c), u64(c.k), u64(products), 1}, {u32(k.atom_k()), u32(k.tile.n), 1, 1}, bytes);
  return tiled(3, {u64(c.c), u64(c.r * c.s), u64(c.k), 1}, {u32(k.atom_k()), 1, u32(k.tile.n), 1}, bytes);
}

}  // namespace

MapShape window_shape(const Conv2d& c, const ConvConfig& k, bool whole_lines) {
  const std::int64_t elements = k.window()->pitch / 2;
  const std::uint32_t lines = u32(k.window()->window_lines(k.tile.m));
  MapShape m = whole_lines
                   ? tiled(3, {u64(c.w * c.c), u64(c.h), u64(c.n), 1}, {u32(elements), lines, 1, 1})
                   : tiled(4, {u64(c.c), u64(c.w), u64(c.h), u64(c.n)}, {u32(c.c), u32(elements / c.c), lines, 1});
  m.swizzle_bytes = 0;
  return m;
}

MapShape with_pitch(MapShape m, std::int64_t pitch) {
  if (pitch == 0) return m;
  std::uint64_t stride = u64(pitch) * m.element_bytes;
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(m.rank); stride *= m.extents[++i]) m.strides[i] = stride;
  return m;
}

MapShape halves(MapShape m) {
  m.extents[0] *= 2;
  for (std::uint64_t& stride : m.strides) stride *= 2;
  return m;
}

MapShape doubled(MapShape m, std::int64_t pitch) {
  m.extents[1] *= 2, m.extents[2] *= 2;
  return with_pitch(m, pitch == 0 ? static_cast<std::int64_t>(m.extents[0]) : pitch);
}

MapShape with_phase(MapShape m, int phase) {
  const std::uint64_t across = u64(phase % 2), down = u64(phase / 2);
  m.extents[1] = (m.extents[1] + 1 - across) / 2, m.extents[2] = (m.extents[2] + 1 - down) / 2;
  m.strides[0] *= 2, m.strides[1] *= 2;
  return m;
}

std::uint64_t phase_offset(const MapShape& m, int phase) {
  return u64(phase % 2) * m.strides[0] + u64(phase / 2) * m.strides[1];
}

MapShapes map_shapes(const plan::ConvTask& task, const ConvPlan& plan) {
  return {activation_shape(task, plan), filter_shape(task, plan.config), output_shape(task, plan)};
}

}  // namespace unisono::families::sm90_conv
