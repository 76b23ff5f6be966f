// Epilogues of every kind: elements alone, one of the normalisations with something ahead of it and behind it, and
// everything that is more than a value for each element.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpu/broad.hpp"
#include "gpu/case.hpp"
#include "support/random_graph.hpp"
#include "unisono/builder.hpp"
#include "unisono/text.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

/// Values with a bound on their magnitude, as a guide to what may be drawn next.
class Drawer {
 public:
  Drawer(Random& random, std::int64_t columns, DType type)
      : r_(random), columns_(columns), type_(type), short_(size_of(type) == 2 ? type : DType::bf16) {
    for (UserFunction& f : test_functions()) g_.define(std::move(f));
  }

  DrawnGraph run() {
    const double kind = r_.uniform(0, 1);
    if (kind < 0.1) return anything();
    if (kind < 0.26)
      elements();
    else if (kind < 0.42)
      normalised(false);
    else if (kind < 0.5)
      normalised(true);
    else if (kind < 0.6)
      of_pixels();
    else if (kind < 0.88)
      general();
    else
      read_again();
    drawn_.text = print(g_.build());
    return std::move(drawn_);
  }

 private:
  // ---- Bounds

  Value remember(Value v, double bound) {
    if (limits_.size() <= v.id()) limits_.resize(v.id() + 1, 0);
    limits_[v.id()] = std::max(limits_[v.id()], bound);
    return v;
  }
  double limit(Value v) const { return v.id() < limits_.size() && limits_[v.id()] > 0 ? limits_[v.id()] : 4; }
  Value within(Value v, double bound) {
    if (limit(v) <= bound) return v;
    return remember(bound > 10 || r_.chance(0.5) ? clamp(v, -bound, bound) : tanh(v) * bound, bound);
  }
  Value positive(Value v) {
    switch (r_.below(4)) {
      case 0: return remember(abs(within(v, 8)) + 0.5, 8.5);
      case 1: return remember(square(within(v, 3)) + 0.25, 9.25);
      case 2: return remember(exp(within(v, 2)), 8);
      default: return remember(sigmoid(within(v, 3)) + 0.05, 1.05);
    }
  }

  // ---- Leaves

  std::string new_name() { return fmt::format("x{}", operands_++); }

  Value number() {
    return g_.constant(r_.chance(0.5) ? r_.between(-3, 3) * 0.5 : std::round(r_.uniform(-2, 2) * 1000) / 1000);
  }

  Value operand(Axes axes, std::vector<DType> storage) {
    const std::string name = new_name();
    OperandOptions o;
    o.storage = r_.one_of(storage);
    return remember(g_.operand(name, axes, o), 1.1);
  }

  Value scalar() {
    const std::string name = new_name();
    OperandOptions o;
    const double value = r_.uniform(-1, 1);
    switch (r_.below(4)) {
      case 0: o.default_value = 0.5; break;
      case 1: drawn_.device_scalars.insert(name); break;
      case 2:
        o.storage = DType::i32;
        drawn_.scalars[name] = r_.between(-3, 3);
        return remember(cast(g_.operand(name, axes::scalar, o), DType::f32), 3);
      default: drawn_.scalars[name] = value;
    }
    return remember(g_.operand(name, axes::scalar, o), 1.1);
  }

  // Operands of integers and bools are turned into floats
  Value tensor(Axes axes) {
    if (r_.chance(0.08)) return remember(cast(operand(axes, {DType::i32}), DType::f32), 3);
    if (r_.chance(0.06)) return remember(select(operand(axes, {DType::boolean}), g_.constant(0.5), g_.constant(-1)), 1);
    if (axes == axes::mn) return operand(axes, {type_, type_, short_, DType::f32, DType::bf16, DType::f16});
    return operand(axes, {DType::f32, DType::f32, DType::bf16, DType::f16});
  }

  Value coordinate() {
    const auto c = r_.one_of({Coordinate::m, Coordinate::n, Coordinate::b, Coordinate::h, Coordinate::w});
    if (r_.chance(0.2)) return remember(0.01 * cast(g_.extent(c), DType::f32), 40);
    return remember(sin(0.03 * cast(g_.index(c), DType::f32)), 1);
  }

  Value leaf() {
    const double kind = r_.uniform(0, 1);
    if (!kept_.empty() && kind < 0.25) return kept_[static_cast<std::size_t>(r_.below(static_cast<int>(kept_.size())))];
    Value v = scalar_or_tensor(r_.uniform(0, 1));
    if (!(v.axes() == axes::mn) || r_.chance(0.5)) kept_.push_back(v);
    return v;
  }
  Value scalar_or_tensor(double kind) {
    if (rows_ && kind < 0.15) return coordinate();
    if (rows_ && kind < 0.3) return tensor(axes::m);
    if (kind < 0.4 && tensors_ < 3) return ++tensors_, tensor(axes::mn);
    if (kind < 0.5) return scalar();
    if (images_ && kind < 0.65) return tensor(axes::bn);
    if (images_ && kind < 0.7) return tensor(axes::b);
    return tensor(axes::n);
  }

  // ---- Steps

  Value unary(Value x) {
    const double a = limit(x);
    switch (r_.below(24)) {
      case 0: return remember(-x, a);
      case 1: return remember(abs(x), a);
      case 2: return remember(sqrt(positive(x)), 3);
      case 3: return remember(rsqrt(positive(x)), 5);
      case 4: return remember(reciprocal(positive(x)), 20);
      case 5: return remember(square(within(x, 10)), 100);
      case 6: return remember(exp(within(x, 3)), 21);
      case 7: return remember(log(positive(x)), 4);
      case 8: return remember(log1p(positive(x)), 4);
      case 9: return remember(tanh(x), 1);
      case 10: return remember(erf(x), 1);
      case 11: return remember(sin(within(x, 30)), 1);
      case 12: return remember(cos(within(x, 30)), 1);
      case 13: return remember(sigmoid(x), 1);
      case 14: return remember(relu(x), a);
      case 15: return remember(leaky_relu(x, r_.one_of({0.01, 0.2, 1.5})), 1.5 * a);
      case 16: return remember(elu(x, r_.one_of({1.0, 0.5})), std::max(a, 1.0));
      case 17: return remember(silu(x), a);
      case 18: return remember(mish(x), a);
      case 19: return remember(gelu(x), a);
      case 20: return remember(gelu_tanh(within(x, 30)), std::min(a, 30.0));
      case 21: return remember(r_.chance(0.5) ? hardswish(x) : relu6(x), std::max(a, 6.0));
      case 22: return remember(r_.chance(0.5) ? softplus(x) : logsigmoid(x), a + 1);
      default: return remember(r_.chance(0.5) ? hardsigmoid(x) : clamp(x, -0.75, 1.5), 1.5);
    }
  }

  Value step(Value x) {
    const double a = limit(x);
    switch (r_.below(18)) {
      case 0:
      case 1:
      case 2: {
        const Value y = leaf();
        return remember(r_.chance(0.7) ? x + y : r_.chance(0.5) ? x - y : y - x, a + limit(y));
      }
      case 3:
      case 4: {
        const Value y = within(leaf(), 4), w = within(x, 30);
        return remember(w * y, limit(w) * limit(y));
      }
      case 5: {
        const Value y = within(leaf(), 4), z = leaf(), w = within(x, 30);
        return remember(fma(w, y, z), limit(w) * limit(y) + limit(z));
      }
      case 6: {
        const Value y = leaf(), z = r_.chance(0.5) ? leaf() : number();
        return remember(select(r_.chance(0.5) ? x > y : x <= y, x, z), std::max(a, limit(z)));
      }
      case 7: {
        const Value y = r_.chance(0.5) ? leaf() : number();
        return remember(r_.chance(0.5) ? min(x, y) : max(x, y), std::max(a, limit(y)));
      }
      case 8: return remember(x / positive(r_.chance(0.7) ? leaf() : x), 20 * a);
      case 9: {
        const double by = r_.one_of({0.5, 2.0, -1.0, 0.3}), more = r_.one_of({0.0, 1.0, -0.25});
        return remember(x * by + more, 2 * a + 1);
      }
      case 10: return short_arithmetic(x);
      case 11: return remember(*g_.call("warp", {x, leaf()}), a + 3);
      case 12: return remember(*g_.call("fold", {x}), a);
      case 13: return remember(pow(positive(x), g_.constant(r_.one_of({0.5, 1.5, 2.0, -1.0}))), 1000);
      default: return unary(x);
    }
  }

  // In bf16, f16, tf32 or i32 for a step or two
  Value short_arithmetic(Value x) {
    if (r_.chance(0.2)) return remember(cast(cast(within(x, 100) * 4, DType::i32), DType::f32) * 0.25, limit(x));
    const Value w = within(x, 100);
    Value v = cast(w, r_.one_of({DType::bf16, DType::f16, DType::tf32}));
    if (r_.chance(0.5)) v = v * 0.75;
    if (r_.chance(0.3)) v = relu(v);
    return remember(r_.chance(0.7) ? cast(v, DType::f32) : v + 0.0 * scalar_or_tensor(0.9), limit(w));
  }

  Value chain(Value x, int most) {
    for (int i = r_.between(0, most); i > 0; --i) x = step(x);
    return x;
  }

  Value acc() { return remember(g_.acc(), 6); }

  DType short_type() { return r_.chance(0.8) ? short_ : r_.one_of({DType::bf16, DType::f16}); }
  std::string result() { return fmt::format("y{}", results_++); }
  void store(Value v, DType type) { g_.store(v, type, result()); }
  Value stored_element(Value v) {
    if (!(v.axes() == axes::mn)) v = acc() + v;
    return within(v, 3e4);
  }

  // ---- Kinds

  // One of the graphs that passes and the CPU backend are tested with; most are refused for some reason
  DrawnGraph anything() {
    test::RandomOptions o;
    o.operations = r_.between(2, 9), o.stores = 3, o.wild = 0;
    o.functions = o.effects = o.f64 = false;
    const Graph graph = test::random_graph(r_.next(), {.images = 2, .height = 8, .width = 8, .cols = columns_}, o);
    for (const Node& x : graph.nodes) {
      if (x.op != Op::operand || !(x.axes == axes::scalar) || x.attr.default_value) continue;
      const DType t = x.attr.storage.value_or(DType::f32);
      drawn_.scalars[x.attr.name] = is_float(t) ? r_.uniform(-1, 1) : t == DType::i32 ? r_.between(-3, 3) : r_.below(2);
    }
    drawn_.text = print(graph);
    return std::move(drawn_);
  }

  void elements() {
    const Value h = stored_element(chain(acc(), 6));
    if (r_.chance(0.3)) store(stored_element(chain(r_.chance(0.5) ? h : acc(), 3)), short_type());
    store(h, short_type());
  }

  int some_groups() {
    std::vector<int> divisors;
    for (int i = 1; i <= columns_; ++i)
      if (columns_ % i == 0 && (columns_ / i <= 64 || i <= 4)) divisors.push_back(i);
    return r_.one_of(divisors);
  }

  Value column() {
    Value c = images_ && r_.chance(0.35) ? tensor(axes::bn) : tensor(axes::n);
    if (r_.chance(0.3)) c = remember(1 + c, limit(c) + 1);
    if (r_.chance(0.1)) c = remember(tanh(c), 1);
    return c;
  }

  Value normalise(Value h, bool batch, ReduceDomain& domain, double eps) {
    NormOptions o;
    o.eps = eps;
    if (r_.chance(0.75)) o.scale = r_.chance(0.9) ? column() : scalar();
    if (r_.chance(0.65)) o.shift = r_.chance(0.9) ? column() : scalar();
    const bool channels = r_.chance(0.3);
    domain = {.rows = true, .cols = !channels, .per_image = !batch, .groups = 1};
    if (!channels) domain.groups = some_groups();
    const bool named = batch ? channels : true;
    if (named && r_.chance(0.75)) {
      if (batch) return batch_norm(h, o);
      if (channels) return instance_norm(h, o);
      o.groups = domain.groups;
      return group_norm(h, o);
    }
    Value y = h - mean(h, domain);
    const Value v = variance(h, domain) + eps;
    if (r_.chance(0.8)) y = r_.chance(0.6) ? y * rsqrt(v) : y / sqrt(v);
    if (o.scale) y = y * *o.scale;
    if (o.shift) y = y + *o.shift;
    return y;
  }

  // Over the pixels of an image and groups of channels, or of all images
  void normalised(bool batch) {
    images_ = !batch;
    const Value h = within(chain(acc(), 3), 1000);
    const Value x = h.axes() == axes::mn ? h : remember(acc() + h, 1006);
    ReduceDomain domain;
    const double eps = r_.one_of({1e-5, 1e-3, 0.1});
    Value y = remember(normalise(x, batch, domain, eps), 30);
    const Value first = y;
    y = chain(y, 4);
    if (r_.chance(0.08)) y = remember(y + x, limit(y) + limit(x));
    if (!(y.axes() == axes::mn)) y = first;
    if (r_.chance(0.3))
      store(within(x, 3e4), short_type());
    else if (r_.chance(0.15))
      store(within(chain(first, 2), 3e4), short_type());
    if (r_.chance(0.25)) {
      store(mean(x, domain), DType::f32);
      if (r_.chance(0.5)) store(rsqrt(variance(x, domain) + eps), r_.one_of({DType::f32, DType::bf16}));
    }
    store(within(y, 3e4), short_type());
  }

  void of_pixels() {
    const Value h = within(chain(acc(), 3), 1000);
    const Value x = h.axes() == axes::mn ? h : remember(acc() + h, 1006);
    NormOptions o;
    o.eps = r_.one_of({1e-5, 1e-3});
    if (r_.chance(0.8)) o.scale = column();
    if (r_.chance(0.6)) o.shift = column();
    const Value y = remember(layer_norm(x, o), 30);
    if (r_.chance(0.35)) store(within(x, 3e4), short_type());
    store(stored_element(chain(y, 4)), short_type());
  }

  // ---- More than a value for each element

  void general() {
    rows_ = r_.chance(0.6);
    const Value h = stored_element(within(chain(acc(), 4), 1000));
    std::vector<Value> all{h};
    if (r_.chance(0.35)) all.push_back(stored_element(of_row(h)));
    bool beyond = false;
    const auto some = [&]() -> Value { return all[static_cast<std::size_t>(r_.below(static_cast<int>(all.size())))]; };
    for (int i = r_.between(1, 3); i > 0; --i) {
      switch (r_.below(8)) {
        case 0: store(stored_element(chain(some(), 2)), DType::f32), beyond = true; break;
        case 1: store(cast(within(some(), 1e4) * 4, DType::i32), DType::i32), beyond = true; break;
        case 2: store(some() > number(), DType::boolean), beyond = true; break;
        case 3:
          for (int k = r_.between(2, 3); k > 0; --k) store(stored_element(chain(some(), 2)), short_type());
          break;
        case 4: store(reduced_row(some()), r_.one_of({DType::f32, DType::f32, DType::bf16})), beyond = true; break;
        default: reductions(some()), beyond = true;
      }
    }
    if (r_.chance(0.15)) witness(), beyond = true;
    if (!beyond || r_.chance(0.6)) store(some(), beyond ? short_type() : DType::f32);
  }

  // Elements that read reductions over rows, and what else there may be beside those
  void read_again() {
    rows_ = r_.chance(0.6);
    const Value x = stored_element(within(chain(acc(), 3), 1000));
    Value y = stored_element(again(x));
    if (r_.chance(0.3)) y = stored_element(r_.chance(0.5) ? again(chain(y, 2)) : of_row(y));
    if (r_.chance(0.3)) reductions(y);
    if (r_.chance(0.15)) store(reduced_row(y), DType::f32);
    if (r_.chance(0.3)) store(x, short_type());
    store(stored_element(chain(y, 3)), r_.one_of({DType::f32, short_type(), short_type()}));
  }

  Value again(Value h) {
    const Value x = within(h, 1000);
    ReduceDomain d{.rows = true, .cols = r_.chance(0.5), .per_image = r_.chance(0.8), .groups = 1};
    if (d.cols && r_.chance(0.5)) d.groups = some_groups();
    switch (r_.below(6)) {
      case 0: return remember(x - (r_.chance(0.5) ? reduce_max(x, d) : reduce_min(x, d)), 2 * limit(x));
      case 1: return remember(x * tanh(mean(x, d)), limit(x));
      case 2: return remember(x * rsqrt(mean(square(x), d) + 0.1), 10 * limit(x));
      case 3: {
        const Value e = exp(within(x, 8) - reduce_max(within(x, 8), d));
        return remember(e / sum(e, d), 1);
      }
      default: return remember(normalise(x, r_.chance(0.2), d, r_.one_of({1e-3, 0.1})), 30);
    }
  }

  // Groups of a row's channels that fit a tile
  ReduceDomain row_groups() {
    ReduceDomain d = over_n;
    std::vector<int> counts;
    for (int i = 2; i <= columns_ && i <= 64; ++i)
      if (columns_ % i == 0 && columns_ / i <= 128) counts.push_back(i);
    if (!counts.empty()) d.groups = r_.one_of(counts);
    return d;
  }

  // Elements that read a reduction over their row
  Value of_row(Value h) {
    const Value x = within(h, 1000);
    if (r_.chance(0.3)) {
      const ReduceDomain d = row_groups();
      if (r_.chance(0.4)) return remember(softmax(within(h, 30), d), 1);
      if (r_.chance(0.4)) return remember((x - mean(x, d)) * rsqrt(variance(x, d) + 0.01), 30);
      return remember(x - reduce_max(x, d), 2 * limit(x));
    }
    switch (r_.below(6)) {
      case 0: return remember(softmax(within(h, 30), over_n), 1);
      case 1: {
        NormOptions o;
        if (r_.chance(0.7)) o.scale = column();
        return remember(rms_norm(x, o), 30);
      }
      case 2: return remember(x - reduce_max(x, over_n), 2 * limit(x));
      case 3: return remember(layer_norm(x), 30);
      case 4: return remember(x * tanh(mean(x, over_n)), limit(x));
      default: return remember(x * rsqrt(mean(square(x), over_n) + 0.01), 10 * limit(x));
    }
  }

  Value reduction(Value x, ReduceDomain d) {
    switch (r_.below(6)) {
      case 0: return sum(x, d);
      case 1: return mean(x, d);
      case 2: return reduce_max(x, d);
      case 3: return reduce_min(x, d);
      case 4: return sum_squares(within(x, 100), d);
      default: return variance(within(x, 1000), d);
    }
  }

  Value reduced_row(Value x) {
    Value v = reduction(x, r_.chance(0.25) ? row_groups() : over_n);
    if (r_.chance(0.25)) v = v * tensor(axes::m);
    if (r_.chance(0.15)) v = tanh(v * 0.01);
    return v;
  }

  // One or two over the same rows, stored as they are or with what is as fine
  void reductions(Value x) {
    ReduceDomain d{.rows = true, .cols = r_.chance(0.55), .per_image = r_.chance(0.4), .groups = 1};
    if (d.cols && r_.chance(0.5)) d.groups = some_groups();
    Value in = x;
    if (r_.chance(0.2)) in = cross_entropy(x);
    if (r_.chance(0.15)) {  // of rows
      in = within(reduction(within(x, 100), over_n), 1e6);
      d.cols = false, d.groups = 1;
      if (r_.chance(0.3)) in = tensor(axes::m) * 0.5;
      store(r_.one_of({0, 1, 2}) == 0 ? sum(in, d) : mean(in, d), DType::f32);
      return;
    }
    for (int k = r_.between(1, 2); k > 0; --k) {
      Value v = reduction(in, d);
      if (r_.chance(0.2)) v = v * 0.5 + 1;
      if (!d.cols && r_.chance(0.2)) v = v * tensor(d.per_image ? axes::bn : axes::n);
      store(v, r_.one_of({DType::f32, DType::f32, DType::bf16}));
    }
  }

  Value cross_entropy(Value x) {
    if (r_.chance(0.5)) {
      OperandOptions o;
      o.storage = DType::i32;
      const Value p = one_hot(g_.operand(new_name(), axes::m, o));
      return remember(p * within(x, 50), 50);
    }
    const Value t = sigmoid(within(tensor(axes::mn), 4)), p = sigmoid(within(x, 8));
    return remember(-(t * log(p) + (1 - t) * log(1 - p)), 20);
  }

  // What a function sees that is called for its effect
  void witness() {
    const bool of_rows = r_.chance(0.3);
    drawn_.witnessed = of_rows ? "index(h) * 0.5 + index(w)"
                               : r_.one_of({"acc", "relu(acc) + 0.25 * index(w)", "acc * wn[n] - index(h)"});
    drawn_.witness_axes = of_rows ? "m" : "mn";
  }

  Random& r_;
  std::int64_t columns_;
  DType type_, short_;  ///< of the operands; of results of 16 bits
  GraphBuilder g_;
  DrawnGraph drawn_;
  std::vector<double> limits_;
  std::vector<Value> kept_;
  int operands_ = 0, tensors_ = 0, results_ = 0;
  bool rows_ = false, images_ = true;
};

}  // namespace

DrawnGraph draw_graph(Random& random, std::int64_t columns, DType type) { return Drawer(random, columns, type).run(); }

}  // namespace unisono::gpu
