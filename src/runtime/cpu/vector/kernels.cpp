// All instructions of one unit. UNISONO_UNIT (the namespace) and UNISONO_UNIT_NAME come from the build, which compiles
// this file once per instruction set.

#include "lanewise.hpp"
#include "reductions.hpp"
#include "row_product.hpp"
#include "short_floats.hpp"
#include "transpose.hpp"
#include "unit.hpp"
#include "windows.hpp"

namespace UNISONO_UNIT {

namespace {

using unisono::cpu::Collect;
using unisono::cpu::RowResult;
using unisono::cpu::VectorUnit;

constexpr VectorUnit make_unit() {
  VectorUnit u{};
  u.name = UNISONO_UNIT_NAME;
  u.float_lanes = static_cast<int>(lanes_of<F>);
  set_operations<F>(u.float_lane);
  set_operations<D>(u.double_lane);
  u.double_lane[static_cast<int>(Code::round_i32)] = lanewise1<D, [](D x) { return rounded_i32(x); }>;
  const auto set = [&](Code c, LaneFunction f) { u.float_lane[static_cast<int>(c)] = f; };
  set(Code::round_bf16, lanewise1<F, [](F x) { return rounded_bf16(x); }>);
  set(Code::round_f16, lanewise1<F, [](F x) { return rounded_f16(x); }>);
  set(Code::round_tf32, lanewise1<F, [](F x) { return rounded_tf32(x); }>);
  set(Code::sub_fma, lanewise4<F, [](F x, F y, F z, F w) { return multiply_add(x - y, z, w); }>);
  set(Code::sub_mul, lanewise3<F, [](F x, F y, F z) { return (x - y) * z; }>);
  set(Code::add_relu, lanewise2<F, [](F x, F y) { return larger(x + y, F{}); }>);
  set_normalise(u.normalise);
  const auto collect = [&](Collect c, void (*f)(const AccumulateArgs&)) { u.accumulate[static_cast<int>(c)] = f; };
  collect(Collect::sum, accumulate_sum<itself>);
  collect(Collect::sum_squares, accumulate_sum<squared>);
  collect(Collect::moments, accumulate_moments);
  collect(Collect::largest, accumulate_extreme<the_larger>);
  collect(Collect::smallest, accumulate_extreme<the_smaller>);
  const auto row = [&](RowResult r, void (*f)(const RowArgs&)) { u.reduce_rows[static_cast<int>(r)] = f; };
  row(RowResult::sum, rows_sum);
  row(RowResult::mean, rows_mean);
  row(RowResult::sum_squares, rows_sum_squares);
  row(RowResult::variance, rows_variance);
  row(RowResult::largest, rows_largest);
  row(RowResult::smallest, rows_smallest);
  u.widen = widen;
  u.narrow = narrow;
  u.load_bf16 = load_short<decode_bf16>;
  u.store_bf16 = store_short<encode_bf16>;
  u.load_f16 = load_short<decode_f16>;
  u.store_f16 = store_short<encode_f16>;
  u.copy_rows = copy_rows;
  u.transpose = transpose<false>;
  u.transpose_past_caches = transpose<true>;
  u.finish_stores_past_caches = finish_stores_past_caches;
  u.window_largest = window_largest;
  u.window_mean = window_mean;
  u.row_product = row_product;
  return u;
}

}  // namespace

extern const VectorUnit unit;
constexpr VectorUnit unit = make_unit();

}  // namespace UNISONO_UNIT
