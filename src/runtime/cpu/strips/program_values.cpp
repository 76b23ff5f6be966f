/// Registers and leaves: where values come from, and how they are broadcast and converted.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "coda/error.hpp"
#include "ir/op_table.hpp"
#include "runtime/cpu/elements.hpp"
#include "runtime/cpu/scratch.hpp"
#include "runtime/cpu/strips/program_builder.hpp"
#include "support/float_convert.hpp"

namespace coda::cpu {

namespace {

// A run that is one value, repeated
void fill(std::byte* to, bool wide, double x, std::int64_t count) {
  if (wide)
    std::fill_n(reinterpret_cast<double*>(to), count, x);
  else
    std::fill_n(reinterpret_cast<float*>(to), count, static_cast<float>(x));
}

template <class T>
void broadcast_rows(const T* from, std::int64_t from_step, std::int64_t from_width, T* to, std::int64_t rows,
                    std::int64_t width) {
  const std::int64_t repeat = width / from_width;
  for (std::int64_t r = 0; r < rows; ++r, from += from_step, to += width) {
    if (repeat == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(T));
    } else {
      for (std::int64_t i = 0; i < from_width; ++i) std::fill_n(to + i * repeat, repeat, from[i]);
    }
  }
}

}  // namespace

Register ProgramBuilder::allocate(bool per_row, std::int64_t width, bool wide) {
  Register r{.home = Home::scratch, .offset = top_, .width = width, .per_row = per_row, .wide = wide};
  const std::int64_t lanes = per_row ? p_.block_rows * width : r.run();
  // a vector may be read whole past the last lane
  top_ += aligned_size((static_cast<std::size_t>(lanes) + scalar_lanes) * r.lane_bytes());
  return r;
}

void ProgramBuilder::emit(bool row, Instruction instruction) {
  (row ? out_->per_block : out_->per_strip).push_back(std::move(instruction));
}

Register ProgramBuilder::value(ValueId v) {
  const Node& x = node(v);
  const Key key{v, per_row(x.axes), width_of(x.axes), is_wide(x.dtype)};
  if (const auto it = registers_.find(key); it != registers_.end()) return it->second;
  const bool is_leaf = ir::info(x.op).op_class == ir::OpClass::leaf;
  Register r;
  if (const auto k = kept_.find(v); k != kept_.end() && (is_leaf ? stage_ > 0 : home_stage_.at(v) < stage_)) {
    r = {.home = Home::kept, .offset = k->second, .width = width_of(x.axes), .per_row = true, .wide = is_wide(x.dtype)};
  } else if (const auto d = reduction_.find(v); d != reduction_.end()) {
    r = {.home = Home::reduced,
         .offset = d->second,
         .width = width_of(x.axes),
         .per_row = false,
         .per_image = x.attr.domain.per_image,
         .wide = is_wide(x.dtype)};
  } else if (is_leaf) {
    r = leaf(v);
  } else {  // a small value of an earlier stage or a uniform one, computed again; or one that was left to its user
    if (const auto home = home_stage_.find(v); per_row(x.axes) && (home == home_stage_.end() || home->second != stage_))
      throw InternalError(fmt::format("value {} ({}) was not kept for stage {}", v, to_string(x.op), stage_));
    compute(v);
    return registers_.at(key);
  }
  registers_[key] = r;
  return r;
}

Register ProgramBuilder::shaped(ValueId v, bool row, std::int64_t width, bool wide) {
  const Key key{v, row, width, wide};
  if (const auto it = registers_.find(key); it != registers_.end()) return it->second;
  const Node& x = node(v);
  if (x.op == Op::constant) {
    const Register r = constant(x.attr.value, wide);
    if (!row && width == 1) return registers_[key] = r;
    return registers_[key] = broadcast(r, row, width);
  }
  Register r = value(v);
  if (r.wide != wide) r = registers_[{v, r.per_row, r.width, wide}] = converted(r, wide);
  if (r.per_row != row || r.width != width) r = broadcast(r, row, width);
  return registers_[key] = r;
}

Register ProgramBuilder::converted(const Register& from, bool wide) {
  Register to = allocate(from.per_row, from.width, wide);
  const auto convert = wide ? unit_.widen : unit_.narrow;
  emit(from.per_row, [=, &p = p_](const Frame& f) {
    LaneArgs a;
    a.result = address(to, f, p);
    a.source[0] = address(from, f, p);
    a.step[0] = 1;
    a.lanes = static_cast<std::size_t>(from.per_row ? f.rows * from.width : from.run());
    convert(a);
  });
  return to;
}

Register ProgramBuilder::broadcast(const Register& from, bool row, std::int64_t width) {
  if (width % from.width != 0) throw InternalError(fmt::format("{} lanes do not broadcast to {}", from.width, width));
  const Register to = allocate(row, width, from.wide);
  const std::int64_t block = p_.block_rows;
  // what does not vary by row is laid out once a strip, for the longest block
  emit(from.per_row, [=, &p = p_](const Frame& f) {
    std::byte* source = address(from, f, p);
    std::byte* target = address(to, f, p);
    const std::int64_t rows = from.per_row ? f.rows : row ? block : 1;
    const std::int64_t step = from.per_row ? from.width : 0;
    if (from.wide) {
      broadcast_rows(reinterpret_cast<const double*>(source), step, from.width, reinterpret_cast<double*>(target), rows,
                     width);
    } else {
      broadcast_rows(reinterpret_cast<const float*>(source), step, from.width, reinterpret_cast<float*>(target), rows,
                     width);
    }
  });
  return to;
}

Register ProgramBuilder::constant(double x, bool wide) {
  const Register r = allocate(false, 1, wide);
  emit(false, [=, &p = p_](const Frame& f) { fill(address(r, f, p), wide, x, scalar_lanes); });
  return r;
}

Register ProgramBuilder::coordinate(Coordinate c) {
  const Extents e = p_.extents;
  if (c == Coordinate::n) {
    const Register r = allocate(false, e.cols, true);
    emit(false, [=, &p = p_](const Frame& f) {
      auto* to = reinterpret_cast<double*>(address(r, f, p));
      for (std::int64_t i = 0; i < r.run(); ++i) to[i] = r.scalar() ? 0 : static_cast<double>(i);
    });
    return r;
  }
  if (c == Coordinate::b) {
    const Register r = allocate(false, 1, true);
    emit(false,
         [=, &p = p_](const Frame& f) { fill(address(r, f, p), true, static_cast<double>(f.image), scalar_lanes); });
    return r;
  }
  const Register r = allocate(true, 1, true);
  emit(true, [=, &p = p_](const Frame& f) {
    auto* to = reinterpret_cast<double*>(address(r, f, p));
    for (std::int64_t i = 0; i < f.rows; ++i) {
      const std::int64_t m = f.first_row + i, pixel = m % e.rows_per_image();
      to[i] = static_cast<double>(c == Coordinate::m ? m : c == Coordinate::h ? pixel / e.width : pixel % e.width);
    }
  });
  return r;
}

Register ProgramBuilder::leaf(ValueId v) {
  const Node& x = node(v);
  const Extents e = p_.extents;
  switch (x.op) {
    case Op::acc: out_->reads_acc = true; return {.home = Home::acc, .offset = 0, .width = e.cols, .per_row = true};
    case Op::operand: return load_operand(v);
    case Op::constant: return constant(x.attr.value, is_wide(x.dtype));
    case Op::index: return coordinate(x.attr.coordinate);
    case Op::extent: {
      const Coordinate c = x.attr.coordinate;
      const std::int64_t n = c == Coordinate::m   ? e.rows()
                             : c == Coordinate::n ? e.cols
                             : c == Coordinate::b ? e.images
                             : c == Coordinate::h ? e.height
                                                  : e.width;
      return constant(static_cast<double>(n), true);
    }
    default: throw InternalError(fmt::format("{} is no leaf", to_string(x.op)));
  }
}

Register ProgramBuilder::load_operand(ValueId v) {
  const Node& x = node(v);
  const std::size_t index = operands_.of_node.at(v);
  const bool wide = is_wide(x.dtype);
  const Register r = allocate(per_row(x.axes), width_of(x.axes), wide);
  if (x.axes == axes::mn) return load_matrix_operand(index, r);
  if (x.axes == axes::scalar) {
    emit(false,
         [=, &p = p_](const Frame& f) { fill(address(r, f, p), wide, f.bindings->scalars[index], scalar_lanes); });
    return r;
  }
  const bool by_image = x.axes.row == RowAxis::b, by_row = x.axes.row == RowAxis::m,
             by_col = x.axes.col != ColAxis::none;
  const VectorUnit* unit = &unit_;
  emit(by_row, [=, &p = p_](const Frame& f) {
    const BoundTensor& t = f.bindings->operands[index];
    const std::int64_t start = by_image ? f.image * t.row : by_row ? f.first_row * t.row : 0;
    const std::byte* from = element(static_cast<const void*>(t.data), start, t.dtype);
    const auto count = static_cast<std::size_t>(by_row ? f.rows : by_col ? r.width : 1);
    const std::int64_t stride = by_row ? t.row : t.col;
    std::byte* to = address(r, f, p);
    if (wide)
      load_doubles(from, t.dtype, stride, count, reinterpret_cast<double*>(to));
    else
      load_floats(*unit, from, t.dtype, stride, count, reinterpret_cast<float*>(to));
    if (!r.scalar()) return;
    const double x0 = wide ? *reinterpret_cast<double*>(to) : static_cast<double>(*reinterpret_cast<float*>(to));
    fill(to, wide, x0, scalar_lanes);
  });
  return r;
}

namespace {

// Calls run(first row of the run, rows, address of its first element) for runs of rows that lie one pixel stride apart
template <class Run>
void for_pixel_runs(const Frame& f, const Extents& e, const BoundTensor& t, Run run) {
  const bool uniform = t.mn.row == e.width * t.mn.pixel || e.width == 1;
  const std::int64_t pixel_step = e.width == 1 ? t.mn.row : t.mn.pixel;
  std::int64_t done = 0;
  while (done < f.rows) {
    const std::int64_t pixel = (f.first_row + done) % e.rows_per_image();
    const std::int64_t count = uniform ? f.rows - done : std::min(f.rows - done, e.width - pixel % e.width);
    const std::int64_t at = f.image * t.mn.image + pixel / e.width * t.mn.row + pixel % e.width * t.mn.pixel;
    run(done, count, at, pixel_step);
    done += count;
  }
}

}  // namespace

Register ProgramBuilder::load_matrix_operand(std::size_t index, const Register& r) {
  const Extents e = p_.extents;
  const VectorUnit* unit = &unit_;
  emit(true, [=, &p = p_](const Frame& f) {
    const BoundTensor& t = f.bindings->operands[index];
    std::byte* to = address(r, f, p);
    for_pixel_runs(f, e, t, [&](std::int64_t first, std::int64_t rows, std::int64_t at, std::int64_t step) {
      std::byte* target = to + static_cast<std::size_t>(first * e.cols) * r.lane_bytes();
      const auto load = [&](std::int64_t offset, std::int64_t stride, std::int64_t count, std::int64_t lane) {
        const std::byte* from = element(static_cast<const void*>(t.data), at + offset, t.dtype);
        if (r.wide)
          load_doubles(from, t.dtype, stride, static_cast<std::size_t>(count),
                       reinterpret_cast<double*>(target) + lane);
        else
          load_floats(*unit, from, t.dtype, stride, static_cast<std::size_t>(count),
                      reinterpret_cast<float*>(target) + lane);
      };
      if (t.mn.col == 1 && (step == e.cols || rows == 1)) {
        load(0, 1, rows * e.cols, 0);
      } else if (step == 1 && t.dtype == DType::f32 && !r.wide) {  // channels first
        unit->transpose(reinterpret_cast<const float*>(t.data) + at, t.mn.col, reinterpret_cast<float*>(target), e.cols,
                        static_cast<std::size_t>(e.cols), static_cast<std::size_t>(rows));
      } else {
        for (std::int64_t i = 0; i < rows; ++i) load(i * step, t.mn.col, e.cols, i * e.cols);
      }
    });
  });
  return r;
}

void ProgramBuilder::store(std::size_t index) {
  const ValueId v = g_.stores[index].value;
  const Node& x = node(v);
  // a stored constant has the width of a scalar
  const Register r = shaped(v, per_row(x.axes), width_of(x.axes), is_wide(x.dtype));
  const Extents e = p_.extents;
  const VectorUnit* unit = &unit_;
  const Axes axes = x.axes;
  const auto write = [unit, wide = r.wide](const std::byte* from, std::int64_t lane, std::int64_t count,
                                           const BoundTensor& t, std::int64_t at, std::int64_t stride) {
    std::byte* to = element(static_cast<void*>(t.data), at, t.dtype);
    if (wide)
      store_doubles(reinterpret_cast<const double*>(from) + lane, static_cast<std::size_t>(count), to, t.dtype, stride);
    else
      store_floats(*unit, reinterpret_cast<const float*>(from) + lane, static_cast<std::size_t>(count), to, t.dtype,
                   stride);
  };
  emit(r.per_row, [=, &p = p_](const Frame& f) {
    const BoundTensor& t = f.bindings->outputs[index];
    const std::byte* from = address(r, f, p);
    if (axes == axes::mn) {
      for_pixel_runs(f, e, t, [&](std::int64_t first, std::int64_t rows, std::int64_t at, std::int64_t step) {
        if (t.mn.col == 1 && (step == e.cols || rows == 1)) {
          write(from, first * e.cols, rows * e.cols, t, at, 1);
        } else if (step == 1 && t.dtype == DType::f32 && !r.wide) {  // channels first
          unit->transpose(reinterpret_cast<const float*>(from) + first * e.cols, e.cols,
                          reinterpret_cast<float*>(t.data) + at, t.mn.col, static_cast<std::size_t>(rows),
                          static_cast<std::size_t>(e.cols));
        } else {
          for (std::int64_t i = 0; i < rows; ++i) write(from, (first + i) * e.cols, e.cols, t, at + i * step, t.mn.col);
        }
      });
    } else if (axes.row == RowAxis::m) {
      const std::int64_t width = r.width;
      for (std::int64_t i = 0; i < f.rows && width > 1; ++i)
        write(from, i * width, width, t, (f.first_row + i) * t.row, t.col);
      if (width == 1) write(from, 0, f.rows, t, f.first_row * t.row, t.row);
    } else {
      // without rows: written once, or once an image
      if (axes.row == RowAxis::none && f.image != 0) return;
      const std::int64_t at = axes.row == RowAxis::b ? f.image * t.row : 0;
      write(from, 0, r.width, t, at, axes.col == ColAxis::none ? 1 : t.col);
    }
  });
}

}  // namespace coda::cpu
