#include "runtime/cpu/machine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "runtime/cpu/elements.hpp"
#include "runtime/cpu/registers.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

Machine::Machine(const VectorUnit& unit, const Plan& plan, const Program& program, const BoundArguments& bound,
                 std::byte* uniform, std::byte* scratch)
    : unit_(unit),
      plan_(plan),
      program_(program),
      bound_(bound),
      uniform_(uniform),
      scratch_(scratch),
      places_(program.registers.size()),
      in_place_(program.registers.size(), false),
      stored_by_(plan.graph.stores.size(), -1) {
  for (std::size_t r = 0; r < places_.size(); ++r) {
    const Register& reg = program.registers[r];
    switch (reg.home) {
      case Home::constant:
        // only ever read
        places_[r].base =
            const_cast<std::byte*>(reinterpret_cast<const std::byte*>(program.constants.data())) + reg.offset;
        break;
      case Home::uniform: places_[r].base = uniform_ + reg.offset; break;
      default: places_[r].base = scratch_ + reg.offset;
    }
  }
}

void Machine::place(Home home, int index, RegisterMemory place) {
  for (std::size_t r = 0; r < places_.size(); ++r) {
    const Register& reg = program_.registers[r];
    if (reg.home != home || reg.index != index) continue;
    places_[r] = place;
    in_place_[r] = true;
  }
}

void Machine::bind_output(int store, RegisterMemory place) {
  for (const Instruction& i : program_.instructions) {
    if (i.kind != Kind::store || i.index != store) continue;
    const auto reg = static_cast<std::size_t>(i.source[0]);
    places_[reg] = place;
    in_place_[reg] = true;
    stored_by_[static_cast<std::size_t>(store)] = i.source[0];
    if (program_.registers[reg].home != Home::accumulator) written_.push_back(i.source[0]);
  }
}

Machine::Lanes Machine::lanes(int reg) const {
  const auto r = static_cast<std::size_t>(reg);
  const RegisterMemory& p = places_[r];
  std::byte* data = p.base;
  if (p.pitch != 0) {
    const std::int64_t row = block_.image * plan_.extents.rows_per_image() + block_.first;
    data += (row - p.origin) * p.pitch;
  }
  return {data, program_.registers[r].shape.scalar() ? 0 : 1};
}

LaneShape Machine::shape(int reg) const {
  LaneShape s = program_.registers[static_cast<std::size_t>(reg)].shape;
  if (s.rows == LaneShape::block) s.rows = block_.rows;
  return s;
}

std::int64_t Machine::count(int reg) const {
  return lanes_of(program_.registers[static_cast<std::size_t>(reg)].shape, block_.rows);
}

void Machine::lane_wise(const Instruction& i) const {
  LaneArgs args;
  args.result = lanes(i.result).data;
  args.lanes = static_cast<std::size_t>(count(i.result));
  for (std::size_t k = 0; k < i.source.size(); ++k) {
    const Lanes s = lanes(i.source[k]);
    args.source[k] = s.data;
    args.step[k] = s.step;
  }
  args.immediate[0] = i.immediate[0];
  args.immediate[1] = i.immediate[1];
  if (i.by_rows) return lane_wise_by_rows(i, args);
  call_unit(i, args);
}

void Machine::call_unit(const Instruction& i, const LaneArgs& args) const {
  const bool wide = program_.registers[static_cast<std::size_t>(i.source[0])].wide;
  if (i.kind == Kind::normalise) return unit_.normalise[static_cast<int>(i.code)](args);
  if (i.kind == Kind::widen) return unit_.widen(args);
  if (i.kind == Kind::narrow) return unit_.narrow(args);
  (wide ? unit_.double_lane : unit_.float_lane)[static_cast<int>(i.code)](args);
}

// A call for each row of float lanes, for which a source of one column is a scalar
void Machine::lane_wise_by_rows(const Instruction& i, LaneArgs args) const {
  const LaneShape all = shape(i.result);
  constexpr std::size_t most = std::extent_v<decltype(LaneArgs::source)>;
  std::array<std::array<float, scalar_lanes>, most> scalars;
  std::array<const float*, most> source{};
  std::array<std::ptrdiff_t, most> pitch{};  // from row to row
  for (std::size_t k = 0; k < i.source.size(); ++k) {
    source[k] = static_cast<const float*>(args.source[k]);
    const bool of_rows = shape(i.source[k]).cols == 1 && args.step[k] != 0;
    pitch[k] = args.step[k] == 0 ? 0 : of_rows ? 1 : all.cols;
    if (of_rows) args.source[k] = scalars[k].data(), args.step[k] = 0;
  }
  args.lanes = static_cast<std::size_t>(all.cols);
  auto* result = static_cast<float*>(args.result);
  for (std::int64_t r = 0; r < all.rows; ++r) {
    for (std::size_t k = 0; k < i.source.size(); ++k) {
      if (pitch[k] == 1) scalars[k].fill(source[k][r]);
      if (pitch[k] > 1) args.source[k] = source[k] + r * pitch[k];
    }
    args.result = result + r * all.cols;
    call_unit(i, args);
  }
}

void Machine::integer(const Instruction& i) const {
  const double* source[3] = {};
  std::ptrdiff_t step[3] = {};
  for (std::size_t k = 0; k < i.source.size(); ++k) {
    const Lanes s = lanes(i.source[k]);
    source[k] = reinterpret_cast<const double*>(s.data);
    step[k] = s.step;
  }
  integer_lanes(i.op, source, step, count(i.result), reinterpret_cast<double*>(lanes(i.result).data));
}

void Machine::round(const Instruction& i) const {
  const Lanes s = lanes(i.source[0]);
  const auto* source = reinterpret_cast<const double*>(s.data);
  auto* result = reinterpret_cast<double*>(lanes(i.result).data);
  const std::int64_t n = count(i.result);
  for (std::int64_t k = 0; k < n; ++k) result[k] = support::round_to(source[k * s.step], i.dtype);
}

namespace {

template <class T>
void expand_lanes(const T* from, LaneShape a, T* to, LaneShape b) {
  const std::int64_t run = b.cols / a.cols;  // columns that one element stands for
  for (std::int64_t r = 0; r < b.rows; ++r) {
    const T* source = from + (a.rows == 1 && b.rows != 1 ? 0 : r) * a.cols;
    if (run == 1) {
      to = std::copy_n(source, a.cols, to);
      continue;
    }
    for (std::int64_t c = 0; c < a.cols; ++c, to += run) std::fill_n(to, run, source[c]);
  }
}

}  // namespace

void Machine::expand(const Instruction& i) const {
  const Lanes s = lanes(i.source[0]);
  std::byte* result = lanes(i.result).data;
  if (program_.registers[static_cast<std::size_t>(i.result)].wide)
    return expand_lanes(reinterpret_cast<const double*>(s.data), shape(i.source[0]), reinterpret_cast<double*>(result),
                        shape(i.result));
  expand_lanes(reinterpret_cast<const float*>(s.data), shape(i.source[0]), reinterpret_cast<float*>(result),
               shape(i.result));
}

// Repeats a scalar over its vector
template <class T>
static void spread_scalar(std::byte* lanes) {
  auto* x = reinterpret_cast<T*>(lanes);
  std::fill_n(x, scalar_lanes, T(x[0]));
}

void Machine::load_uniform(const BoundTensor& t, int reg) const {
  const LaneShape s = shape(reg);
  const bool wide = program_.registers[static_cast<std::size_t>(reg)].wide;
  std::byte* to = lanes(reg).data;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const auto n = static_cast<std::size_t>(s.cols);
    if (t.data == nullptr) {
      if (wide)
        std::fill_n(reinterpret_cast<double*>(to) + r * s.cols, n, t.number);
      else
        std::fill_n(reinterpret_cast<float*>(to) + r * s.cols, n, static_cast<float>(t.number));
    } else {
      const void* from = element(t.data, r * t.strides.image, t.dtype);
      if (wide)
        load_doubles(from, t.dtype, t.strides.col, n, reinterpret_cast<double*>(to) + r * s.cols);
      else
        load_floats(unit_, from, t.dtype, t.strides.col, n, reinterpret_cast<float*>(to) + r * s.cols);
    }
  }
  if (!s.scalar()) return;
  if (wide)
    spread_scalar<double>(to);
  else
    spread_scalar<float>(to);
}

void Machine::load(const Instruction& i) const {
  if (in_place_[static_cast<std::size_t>(i.result)]) return;
  const BoundTensor& t = bound_.operands[static_cast<std::size_t>(i.index)];
  const Register& reg = program_.registers[static_cast<std::size_t>(i.result)];
  if (reg.shape.rows != LaneShape::block || t.data == nullptr) return load_uniform(t, i.result);
  load_block(unit_, t, plan_.extents, block_, reg.shape.cols, reg.wide, lanes(i.result).data);
}

std::int64_t Machine::coordinate_at(Coordinate c, std::int64_t row, std::int64_t col) const {
  const Extents& e = plan_.extents;
  switch (c) {
    case Coordinate::m: return block_.image * e.rows_per_image() + block_.first + row;
    case Coordinate::n: return col;
    case Coordinate::b: return row;
    case Coordinate::h: return (block_.first + row) / e.width;
    case Coordinate::w: return (block_.first + row) % e.width;
  }
  return 0;
}

void Machine::coordinate(const Instruction& i) const {
  auto* to = reinterpret_cast<double*>(lanes(i.result).data);
  const LaneShape s = shape(i.result);
  const Extents& e = plan_.extents;
  if (i.op == Op::extent) {
    const std::int64_t extent[] = {e.rows(), e.cols, e.images, e.height, e.width};
    std::fill_n(to, scalar_lanes, static_cast<double>(extent[static_cast<int>(i.coordinate)]));
    return;
  }
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t c = 0; c < s.cols; ++c)
      to[r * s.cols + c] = static_cast<double>(coordinate_at(i.coordinate, r, c));
  if (is_scalar(i.result)) spread_scalar<double>(reinterpret_cast<std::byte*>(to));
}

// Once for each element of the result, whatever the vector's width
void Machine::call(const Instruction& i) const {
  const UserFunction& f = *plan_.functions[static_cast<std::size_t>(i.index)];
  const LaneShape s = shape(i.result);
  auto* result = reinterpret_cast<float*>(lanes(i.result).data);
  std::vector<Lanes> source;
  for (const int k : i.source) source.push_back(lanes(k));
  std::vector<double> values(i.source.size());
  for (std::int64_t n = 0; n < s.rows * s.cols; ++n) {
    for (std::size_t k = 0; k < source.size(); ++k)
      values[k] = f.parameter(k) == ParameterType::float32
                      ? static_cast<double>(reinterpret_cast<const float*>(source[k].data)[n * source[k].step])
                      : std::trunc(reinterpret_cast<const double*>(source[k].data)[n * source[k].step]);
    result[n] = static_cast<float>(f.cpu(values));
  }
  if (is_scalar(i.result)) spread_scalar<float>(reinterpret_cast<std::byte*>(result));
}

void Machine::row_reduce(const Instruction& i) const {
  const LaneShape from = shape(i.source[0]), to = shape(i.result);
  const std::int64_t width = from.cols / to.cols, rows = from.rows * to.cols;
  const Lanes s = lanes(i.source[0]);
  if (program_.registers[static_cast<std::size_t>(i.source[0])].wide)
    return reduce_rows_wide(i.row_result, i.dtype == DType::i32, reinterpret_cast<const double*>(s.data), rows, width,
                            reinterpret_cast<double*>(lanes(i.result).data));
  RowArgs args;
  args.source = reinterpret_cast<const float*>(s.data);
  args.rows = static_cast<std::size_t>(rows);
  args.width = static_cast<std::size_t>(width);
  args.result = reinterpret_cast<float*>(lanes(i.result).data);
  unit_.reduce_rows[static_cast<int>(i.row_result)](args);
}

void Machine::store(const Instruction& i) const {
  if (stored_by_[static_cast<std::size_t>(i.index)] >= 0) return;
  const Register& reg = program_.registers[static_cast<std::size_t>(i.source[0])];
  store_block(unit_, lanes(i.source[0]).data, reg.wide, plan_.extents, block_, reg.shape.cols,
              bound_.outputs[static_cast<std::size_t>(i.index)]);
}

void Machine::fill(const std::vector<Fill>& fills, std::int64_t image, std::int64_t block_rows) {
  for (const Fill& f : fills) {
    const UniformSlot& slot = plan_.slots[static_cast<std::size_t>(f.slot)];
    const auto reg = static_cast<std::size_t>(f.target);
    const std::int64_t row = slot.shape.rows == 1 ? 0 : image, cols = slot.shape.cols;
    const LaneShape one{1, cols};
    LaneShape target = program_.registers[reg].shape;
    if (target.rows == LaneShape::block) target.rows = block_rows;
    if (target.scalar()) target.cols = 1;
    const std::byte* from = uniform_ + slot.offset;
    std::byte* to = scratch_ + program_.registers[reg].offset;
    if (slot.wide) {
      expand_lanes(reinterpret_cast<const double*>(from) + row * cols, one, reinterpret_cast<double*>(to), target);
      if (target.scalar()) spread_scalar<double>(to);
    } else {
      expand_lanes(reinterpret_cast<const float*>(from) + row * cols, one, reinterpret_cast<float*>(to), target);
      if (target.scalar()) spread_scalar<float>(to);
    }
  }
}

void Machine::run(const RowRange& block) {
  block_ = block;
  prefetch_next();
  for (const Instruction& i : program_.instructions) {
    switch (i.kind) {
      case Kind::lanes:
      case Kind::normalise:
      case Kind::widen:
      case Kind::narrow: lane_wise(i); break;
      case Kind::integer: integer(i); break;
      case Kind::round: round(i); break;
      case Kind::expand: expand(i); break;
      case Kind::load: load(i); break;
      case Kind::coordinate: coordinate(i); break;
      case Kind::call: call(i); break;
      case Kind::row_reduce: row_reduce(i); break;
      case Kind::store: store(i); break;
      case Kind::accumulate:
        accumulators_[static_cast<std::size_t>(i.index)].add(unit_, lanes(i.source[0]).data, block_.rows);
        break;
      case Kind::reduce:
        reduce_uniform(plan_.graph[static_cast<ValueId>(i.index)], plan_.extents,
                       reinterpret_cast<const double*>(lanes(i.source[0]).data), shape(i.source[0]),
                       reinterpret_cast<double*>(lanes(i.result).data), shape(i.result));
        break;
    }
  }
}

void store_uniform(const VectorUnit& unit, const Plan&, const UniformSlot& slot, const std::byte* uniform,
                   const BoundTensor& to) {
  const std::byte* lanes = uniform + slot.offset;
  const auto n = static_cast<std::size_t>(slot.shape.cols);
  for (std::int64_t r = 0; r < slot.shape.rows; ++r) {
    void* target = element(to.target, r * to.strides.image, to.dtype);
    if (slot.wide) {
      store_doubles(reinterpret_cast<const double*>(lanes) + r * slot.shape.cols, n, target, to.dtype, to.strides.col);
    } else {
      store_floats(unit, reinterpret_cast<const float*>(lanes) + r * slot.shape.cols, n, target, to.dtype,
                   to.strides.col);
    }
  }
}

}  // namespace unisono::cpu
