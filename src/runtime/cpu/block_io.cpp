#include "runtime/cpu/block_io.hpp"

#include <algorithm>

#include "runtime/cpu/elements.hpp"

namespace unisono::cpu {

namespace {

bool is_f32(DType t) { return t == DType::f32 || t == DType::tf32; }

// Calls body(element index of the run's first pixel, pixels, rows of the block before it) for runs of pixels that lie
// `strides.pixel` apart
template <class Body>
void for_runs(const PixelStrides& s, const Extents& e, const RowRange& block, Body body) {
  const std::int64_t image = block.image * s.image;
  if (s.row == e.width * s.pixel || e.height == 1) {
    body(image + block.first * s.pixel, block.rows, std::int64_t{0});
    return;
  }
  for (std::int64_t done = 0; done < block.rows;) {
    const std::int64_t row = block.first + done, p = row / e.width, q = row % e.width;
    const std::int64_t pixels = std::min(e.width - q, block.rows - done);
    body(image + p * s.row + q * s.pixel, pixels, done);
    done += pixels;
  }
}

void load_run(const VectorUnit& unit, const void* from, DType t, std::int64_t stride, std::int64_t count, bool wide,
              void* lanes, std::int64_t at) {
  const auto n = static_cast<std::size_t>(count);
  if (wide)
    load_doubles(from, t, stride, n, static_cast<double*>(lanes) + at);
  else
    load_floats(unit, from, t, stride, n, static_cast<float*>(lanes) + at);
}

void store_run(const VectorUnit& unit, const void* lanes, std::int64_t at, bool wide, std::int64_t count, void* to,
               DType t, std::int64_t stride) {
  const auto n = static_cast<std::size_t>(count);
  if (wide)
    store_doubles(static_cast<const double*>(lanes) + at, n, to, t, stride);
  else
    store_floats(unit, static_cast<const float*>(lanes) + at, n, to, t, stride);
}

}  // namespace

void load_block(const VectorUnit& unit, const BoundTensor& from, const Extents& e, const RowRange& block,
                std::int64_t cols, bool wide, void* lanes) {
  const PixelStrides& s = from.strides;
  for_runs(s, e, block, [&](std::int64_t start, std::int64_t pixels, std::int64_t before) {
    const void* run = element(from.data, start, from.dtype);
    const std::int64_t at = before * cols;
    if (cols == 1) return load_run(unit, run, from.dtype, s.pixel, pixels, wide, lanes, at);
    if (s.col == 1 && s.pixel == cols) return load_run(unit, run, from.dtype, 1, pixels * cols, wide, lanes, at);
    if (s.pixel == 1 && !wide && is_f32(from.dtype))
      return unit.transpose(static_cast<const float*>(run), s.col, static_cast<float*>(lanes) + at, cols,
                            static_cast<std::size_t>(cols), static_cast<std::size_t>(pixels));
    if (s.col == 1 && !wide && is_f32(from.dtype))
      return unit.copy_rows(static_cast<const float*>(run), s.pixel, static_cast<float*>(lanes) + at, cols,
                            static_cast<std::size_t>(pixels), static_cast<std::size_t>(cols));
    for (std::int64_t i = 0; i < pixels; ++i)
      load_run(unit, element(run, i * s.pixel, from.dtype), from.dtype, s.col, cols, wide, lanes, at + i * cols);
  });
}

void store_block(const VectorUnit& unit, const void* lanes, bool wide, const Extents& e, const RowRange& block,
                 std::int64_t cols, const BoundTensor& to) {
  const PixelStrides& s = to.strides;
  for_runs(s, e, block, [&](std::int64_t start, std::int64_t pixels, std::int64_t before) {
    void* run = element(to.target, start, to.dtype);
    const std::int64_t at = before * cols;
    if (cols == 1) return store_run(unit, lanes, at, wide, pixels, run, to.dtype, s.pixel);
    if (s.col == 1 && s.pixel == cols) return store_run(unit, lanes, at, wide, pixels * cols, run, to.dtype, 1);
    if (s.pixel == 1 && !wide && to.dtype == DType::f32)
      return (to.past_caches ? unit.transpose_past_caches : unit.transpose)(
          static_cast<const float*>(lanes) + at, cols, static_cast<float*>(run), s.col,
          static_cast<std::size_t>(pixels), static_cast<std::size_t>(cols));
    if (s.col == 1 && !wide && to.dtype == DType::f32)
      return unit.copy_rows(static_cast<const float*>(lanes) + at, cols, static_cast<float*>(run), s.pixel,
                            static_cast<std::size_t>(pixels), static_cast<std::size_t>(cols));
    for (std::int64_t i = 0; i < pixels; ++i)
      store_run(unit, lanes, at + i * cols, wide, cols, element(run, i * s.pixel, to.dtype), to.dtype, s.col);
  });
}

}  // namespace unisono::cpu
