#include <fmt/format.h>

#include "ir/op_table.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"

namespace unisono {

namespace {
Value reduce(Op op, Value x, ReduceDomain domain) {
  Attributes a;
  a.domain = domain;
  return x.builder().node(op, {x}, std::move(a));
}

Value normalise(Op op, Value x, const NormOptions& o) {
  Attributes a;
  a.eps = o.eps;
  a.domain = ir::normalisation_domain(op, o.groups);
  if (op != Op::group_norm && o.groups != 1) throw UserError(fmt::format("{} takes no groups", to_string(op)));
  std::vector<Value> inputs{x};
  if (o.scale) inputs.push_back(*o.scale);
  if (o.shift) inputs.push_back(*o.shift);
  a.has_scale = o.scale.has_value();
  a.has_shift = o.shift.has_value();
  return x.builder().node(op, inputs, std::move(a));
}
}  // namespace

Value cast(Value x, DType dtype) { return x.builder().node(Op::cast, {x}, {}, dtype); }

Value sum(Value x, ReduceDomain d) { return reduce(Op::sum, x, d); }
Value mean(Value x, ReduceDomain d) { return reduce(Op::mean, x, d); }
Value reduce_max(Value x, ReduceDomain d) { return reduce(Op::reduce_max, x, d); }
Value reduce_min(Value x, ReduceDomain d) { return reduce(Op::reduce_min, x, d); }
Value sum_squares(Value x, ReduceDomain d) { return reduce(Op::sum_squares, x, d); }
Value variance(Value x, ReduceDomain d) { return reduce(Op::variance, x, d); }
Value softmax(Value x, ReduceDomain d) { return reduce(Op::softmax, x, d); }

Value group_norm(Value x, NormOptions o) { return normalise(Op::group_norm, x, o); }
Value instance_norm(Value x, NormOptions o) { return normalise(Op::instance_norm, x, o); }
Value layer_norm(Value x, NormOptions o) { return normalise(Op::layer_norm, x, o); }
Value rms_norm(Value x, NormOptions o) { return normalise(Op::rms_norm, x, o); }
Value batch_norm(Value x, NormOptions o) { return normalise(Op::batch_norm, x, o); }

}  // namespace unisono
