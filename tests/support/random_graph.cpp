#include "support/random_graph.hpp"

#include <bit>
#include <cmath>

#include "ir/op_table.hpp"
#include "support/random_generator.hpp"

namespace unisono::test {

namespace {

std::uint64_t hash_of(std::span<const double> arguments) {
  std::uint64_t h = 0;
  for (const double x : arguments) h = Random(h ^ std::bit_cast<std::uint64_t>(std::isnan(x) ? 7e300 : x)).next();
  return h;
}

std::vector<int> divisors(std::int64_t n) {
  std::vector<int> d;
  for (int i = 1; i <= n; ++i)
    if (n % i == 0) d.push_back(i);
  return d;
}

const std::vector<Op>& functions() {
  static const std::vector<Op> all{
#define UNISONO_FUNCTION(NAME, ...) Op::NAME,
#define UNISONO_FUNCTION_1(NAME, ...) Op::NAME,
#define UNISONO_FUNCTION_2(NAME, ...) Op::NAME,
#include "unisono/operations.def"
  };
  return all;
}

}  // namespace

Generator::Generator(std::uint64_t seed, const Extents& extents, const RandomOptions& options,
                     std::shared_ptr<EffectLog> log)
    : r_(seed), extents_(extents), options_(options), log_(std::move(log)) {}

Value Generator::remember(Value v, double bound) {
  if (limits_.size() <= v.id()) limits_.resize(v.id() + 1, 0);
  limits_[v.id()] = std::max(limits_[v.id()], bound);
  pool_.push_back(v);
  return v;
}

// Later values are likelier, so that graphs grow deep and little of them is dead
Value Generator::pick() {
  const int n = static_cast<int>(pool_.size());
  const double p = r_.uniform(0, 1);
  const int first = p < 0.45 ? std::max(0, n - 3) : p < 0.7 ? n / 2 : 0;
  return pool_[static_cast<std::size_t>(r_.between(first, n - 1))];
}

Value Generator::pick_float() {
  for (int i = 0; i < 20; ++i)
    if (const Value v = pick(); is_float(v.dtype())) return v;
  return g_.acc();
}

Value Generator::pick_bool() {
  for (int i = 0; i < 6; ++i)
    if (const Value v = pick(); v.dtype() == DType::boolean) return v;
  return pick_float() < pick_or_number();
}

Value Generator::pick_or_number() {
  if (r_.chance(0.8)) return pick();
  return number(r_.chance(0.5) ? r_.between(-3, 3) : r_.uniform(-2, 2));
}

Value Generator::within(Value v, double bound) {
  if (limit(v) <= bound || r_.chance(options_.wild)) return v;
  Value w = v;
  switch (r_.below(3)) {
    case 0: w = clamp(v, -bound, bound); break;
    case 1: w = tanh(v) * bound; break;
    default: w = sin(v) * bound;
  }
  if (limits_.size() <= w.id()) limits_.resize(w.id() + 1, 0);
  limits_[w.id()] = bound;
  return w;
}

Value Generator::positive(Value v) {
  if (r_.chance(options_.wild)) return v;
  switch (r_.below(4)) {
    case 0: return abs(within(v, 8)) + 0.5;
    case 1: return square(within(v, 3)) + 0.25;
    case 2: return exp(within(v, 2));
    default: return sigmoid(within(v, 2));
  }
}

Value Generator::operand(const std::string& name, Axes axes) {
  OperandOptions o;
  if (r_.chance(0.35)) {
    std::vector<DType> choice{DType::f32};
    if (options_.short_storage) choice.push_back(DType::bf16);
    if (options_.short_storage && options_.f16) choice.push_back(DType::f16);
    if (options_.f64) choice.push_back(DType::f64);
    if (r_.chance(0.3)) choice = {DType::i32, DType::boolean, DType::tf32};
    o.storage = r_.one_of(choice);
  }
  if (axes == axes::scalar && r_.chance(0.5)) {
    const bool fraction = !o.storage || is_float(*o.storage);
    o.default_value = fraction ? r_.between(-2, 2) * 0.5 : r_.below(2);
  }
  return remember(g_.operand(name, axes, o), 4);
}

void Generator::leaf() {
  if (options_.coordinates && r_.chance(0.12)) {
    const auto c = r_.one_of({Coordinate::m, Coordinate::n, Coordinate::b, Coordinate::h, Coordinate::w});
    if (r_.chance(0.7)) {
      remember(g_.index(c), 200);
    } else {
      remember(g_.extent(c), 200);
    }
    return;
  }
  if (r_.chance(0.2)) {
    remember(g_.acc(), 8);
    return;
  }
  const Axes a = r_.one_of({axes::scalar, axes::b, axes::m, axes::n, axes::bn, axes::mn, axes::mn});
  operand("x" + std::to_string(operands_++), a);
}

void Generator::binary() {
  Value x = pick(), y = pick_or_number();
  if (r_.chance(0.15)) std::swap(x, y);
  const double a = limit(x), b = limit(y);
  switch (r_.below(9)) {
    case 0:
    case 1: remember(x + y, a + b); break;
    case 2: remember(x - y, a + b); break;
    case 3:
    case 4: {
      const Value p = within(x, 30), q = within(y, 30);
      remember(p * q, limit(p) * limit(q));
      break;
    }
    case 5: {
      const Value q = positive(y);
      remember(x / q, 10 * a);
      break;
    }
    case 6: remember(r_.chance(0.5) ? min(x, y) : max(x, y), std::max(a, b)); break;
    case 7: {
      const Value base = positive(x), exponent = within(y, 2);
      remember(pow(base, exponent), 100);
      break;
    }
    default: {
      const Value p = within(x, 30), q = within(y, 30), z = pick_or_number();
      remember(fma(p, q, z), limit(p) * limit(q) + limit(z));
    }
  }
}

void Generator::unary() {
  const Value x = pick();
  const double a = limit(x);
  switch (r_.below(30)) {
    case 0: remember(-x, a); break;
    case 1: remember(abs(x), a); break;
    case 2: remember(sqrt(positive(x)), 10); break;
    case 3: remember(rsqrt(positive(x)), 4); break;
    case 4: remember(reciprocal(positive(x)), 10); break;
    case 5: {
      const Value w = within(x, 30);
      remember(square(w), limit(w) * limit(w));
      break;
    }
    case 6: remember(exp(within(x, 3)), 20); break;
    case 7: remember(log(positive(x)), 6); break;
    case 8: remember(log1p(positive(x)), 6); break;
    case 9: remember(tanh(x), 1); break;
    case 10: remember(erf(x), 1); break;
    case 11: remember(sin(within(x, 30)), 1); break;
    case 12: remember(cos(within(x, 30)), 1); break;
    case 13: remember(sigmoid(x), 1); break;
    case 14: remember(relu(x), a); break;
    case 15: remember(relu6(x), 6); break;
    case 16: remember(leaky_relu(x, r_.uniform(0, 0.3)), a); break;
    case 17: remember(elu(x, r_.uniform(0.5, 1.5)), std::max(a, 1.5)); break;
    case 18: remember(silu(x), a); break;
    case 19: remember(mish(x), a); break;
    case 20: remember(gelu(x), a); break;
    case 21: remember(gelu_tanh(within(x, 30)), a); break;
    case 22: remember(hardsigmoid(x), 1); break;
    case 23: remember(hardswish(x), a); break;
    case 24: remember(softplus(x), a + 1); break;
    case 25: remember(logsigmoid(x), a + 1); break;
    case 26: {
      const double lower = r_.uniform(-2, 0), upper = r_.uniform(0, 2);
      remember(clamp(x, lower, upper), 2);
      break;
    }
    case 27: remember(logical_not(pick_bool()), 1); break;
    case 28: {
      const double slope = r_.uniform(0.05, 0.5), offset = r_.uniform(0, 1);
      remember(hardsigmoid(x, slope, offset), 1);
      break;
    }
    default: {  // any function of the table, so that one is drawn as soon as it has a row
      const Value w = abs(within(x, 3)) + 0.5;
      Attributes attr;
      const Op op = r_.one_of(functions());
      for (const ir::Parameter& p : ir::info(op).parameters) attr.*p.field = p.fallback;
      remember(g_.node(op, {w}, std::move(attr)), 50);
    }
  }
}

void Generator::comparison() {
  const Value x = pick(), y = pick_or_number();
  switch (r_.below(7)) {
    case 0: remember(x < y, 1); break;
    case 1: remember(x <= y, 1); break;
    case 2: remember(x > y, 1); break;
    case 3: remember(x >= y, 1); break;
    case 4: remember(x == y, 1); break;
    case 5: remember(x != y, 1); break;
    default: {
      const Value p = pick_bool(), q = pick_bool();
      remember(r_.chance(0.5) ? logical_and(p, q) : logical_or(p, q), 1);
    }
  }
}

void Generator::selection() {
  const Value x = pick_or_number(), y = pick_or_number();
  remember(select(pick_bool(), x, y), std::max(limit(x), limit(y)));
}

void Generator::cast_value() {
  const Value x = pick();
  if (r_.chance(options_.short_cast / (options_.short_cast + 0.1))) {
    const DType t = options_.f16 ? r_.one_of({DType::bf16, DType::bf16, DType::f16, DType::tf32})
                                 : r_.one_of({DType::bf16, DType::bf16, DType::tf32});
    const Value w = within(x, 1e4);
    remember(cast(w, t), limit(w));
  } else {
    const Value w = within(x, 1e4);
    const DType t = options_.f64 ? r_.one_of({DType::f32, DType::f64, DType::i32, DType::boolean})
                                 : r_.one_of({DType::f32, DType::f32, DType::i32, DType::boolean});
    remember(cast(w, t), limit(w));
  }
}

ReduceDomain Generator::domain() {
  ReduceDomain d;
  d.rows = r_.chance(0.6);
  d.cols = !d.rows || r_.chance(0.4);
  d.per_image = d.rows && r_.chance(0.5);
  if (d.cols && r_.chance(0.5)) d.groups = r_.one_of(divisors(extents_.cols));
  return d;
}

void Generator::reduction() {
  const Value x = pick();
  const ReduceDomain d = domain();
  const double a = limit(x);
  const double count = static_cast<double>((d.rows ? (d.per_image ? extents_.rows_per_image() : extents_.rows()) : 1)) *
                       static_cast<double>(d.cols ? extents_.cols / d.groups : 1);
  switch (r_.below(6)) {
    case 0: remember(sum(x, d), a * count); break;
    case 1: remember(mean(x, d), a); break;
    case 2: remember(reduce_max(x, d), a); break;
    case 3: remember(reduce_min(x, d), a); break;
    case 4: {
      const Value w = within(x, 30);
      remember(sum_squares(w, d), limit(w) * limit(w) * count);
      break;
    }
    default: remember(variance(within(x, 30), d), 900); break;
  }
}

// Axes of a scale or shift that suits a normalisation of x, mostly per channel
Axes Generator::small_axes_for(const Value& x) {
  if (r_.chance(0.6)) return axes::n;
  return r_.chance(0.5) ? axes::bn : r_.chance(0.3) ? x.axes().col == ColAxis::g ? axes::n : x.axes() : axes::scalar;
}

void Generator::normalisation() {
  const Value x = within(pick(), 30);
  const int kind = r_.below(6);
  if (kind == 5) {
    remember(softmax(x, domain()), 1);
    return;
  }
  NormOptions o;
  o.eps = r_.one_of({1e-5, 1e-3, 0.1});
  if (r_.chance(0.7)) o.scale = operand("x" + std::to_string(operands_++), small_axes_for(x));
  if (kind != 3 && r_.chance(0.6)) o.shift = operand("x" + std::to_string(operands_++), small_axes_for(x));
  switch (kind) {
    case 0:
      o.groups = r_.one_of(divisors(extents_.cols));
      remember(group_norm(x, o), 40);
      break;
    case 1: remember(instance_norm(x, o), 40); break;
    case 2: remember(layer_norm(x, o), 40); break;
    case 3: remember(rms_norm(x, o), 40); break;
    default: remember(batch_norm(x, o), 40);
  }
}

void Generator::one_hot_value() {
  const Axes a = r_.one_of({axes::m, axes::m, axes::b, axes::scalar});
  OperandOptions o;
  if (r_.chance(0.7)) o.storage = DType::i32;
  remember(one_hot(g_.operand("label" + std::to_string(operands_++), a, o)), 1);
}

void Generator::function_call() {
  switch (r_.below(3)) {
    case 0: remember(*g_.call("affine", {within(pick(), 100)}), 201); break;
    case 1: remember(*g_.call("blend", {within(pick(), 100), pick_float()}), 1000); break;
    default: remember(*g_.call("nothing_given", {}), 1);
  }
}

void Generator::effect() { g_.call("observe", {pick(), g_.index(r_.one_of({Coordinate::n, Coordinate::m}))}); }

void Generator::operation() {
  struct Choice {
    int weight;
    bool allowed;
    void (Generator::*draw)();
  };
  const Choice choices[] = {
      {30, true, &Generator::binary},
      {30, true, &Generator::unary},
      {6, true, &Generator::comparison},
      {6, true, &Generator::selection},
      {static_cast<int>(100 * options_.short_cast), true, &Generator::cast_value},
      {4, true, &Generator::cast_value},
      {10, options_.reductions, &Generator::reduction},
      {8, options_.normalisations, &Generator::normalisation},
      {3, true, &Generator::one_hot_value},
      {12, true, &Generator::leaf},
      {3, options_.functions, &Generator::function_call},
      {2, options_.effects, &Generator::effect},
  };
  int total = 0;
  for (const Choice& c : choices) total += c.allowed ? c.weight : 0;
  int drawn = r_.below(total);
  for (const Choice& c : choices) {
    if (!c.allowed) continue;
    drawn -= c.weight;
    if (drawn < 0) return (this->*c.draw)();
  }
}

// Mostly values that nothing else reads, so that little of the graph is dead
void Generator::stores() {
  ValueId last = 0;
  for (const Value v : pool_) last = std::max(last, v.id());
  std::vector<bool> read(last + 1, false);
  for (ValueId id = 0; id <= last; ++id)
    for (const ValueId in : Value(g_, id).node().inputs) read[in] = true;
  std::vector<Value> unread;
  for (const Value v : pool_)
    if (!read[v.id()] && v.node().op != Op::acc) unread.push_back(v);
  const int count = r_.between(1, std::max(1, options_.stores));
  for (int i = 0; i < count; ++i) {
    const Value v = unread.empty() || r_.chance(0.2) ? pick() : r_.one_of(unread);
    std::vector<DType> choice{DType::f32, DType::f32, DType::bf16};
    if (options_.f16) choice.push_back(DType::f16);
    if (options_.f64) choice.push_back(DType::f64);
    if (!is_float(v.dtype())) choice = {DType::i32, DType::boolean, DType::f32};
    g_.store(v, r_.one_of(choice), "out" + std::to_string(i));
  }
}

Graph Generator::run() {
  if (options_.functions) {
    g_.define({"affine", 1, true, "__device__ float affine(float x) { return 2.f * x + 1.f; }",
               [](std::span<const double> x) { return 2 * x[0] + 1; }});
    g_.define({"blend", 2, true, "__device__ float blend(float x, float y) { return x > 0.f ? x : 0.5f * y; }",
               [](std::span<const double> x) { return x[0] > 0 ? x[0] : 0.5 * x[1]; }});
    g_.define({"nothing_given", 0, true, "__device__ float nothing_given() { return 1.f; }",
               [](std::span<const double>) { return 1.0; }});
  }
  if (options_.effects)
    g_.define(
        {"observe", 2, false, "__device__ void observe(float, float) {}", [log = log_](std::span<const double> x) {
           if (log) {
             log->calls.fetch_add(1, std::memory_order_relaxed);
             log->sum_of_hashes.fetch_add(hash_of(x), std::memory_order_relaxed);
           }
           return 0.0;
         }});
  remember(g_.acc(), 8);
  leaf();
  for (int i = 0; i < options_.operations; ++i) {
    if (r_.chance(options_.idiom)) {
      idiom();
    } else {
      operation();
    }
  }
  stores();
  return g_.build();
}

Graph random_graph(std::uint64_t seed, const Extents& extents, const RandomOptions& options,
                   std::shared_ptr<EffectLog> log) {
  return Generator(seed, extents, options, std::move(log)).run();
}

Contraction random_contraction(std::uint64_t seed, const RandomOptions& options) {
  Random r(seed ^ 0x636f6e74u);
  const DType a = options.bf16_contraction && r.chance(0.3) ? DType::bf16 : DType::f32;
  if (!options.convolutions || r.chance(0.5)) {
    Gemm g{.batch = r.one_of({1, 1, 2, 3}),
           .m = r.between(1, 6),
           .n = r.one_of({1, 2, 3, 4, 6, 8, 12}),
           .k = r.between(1, 6)};
    g.transpose_a = r.chance(0.3);
    g.transpose_b = r.chance(0.3);
    g.dtype_a = g.dtype_b = a;
    return g;
  }
  const std::int64_t groups = r.one_of({1, 1, 1, 2});
  const auto draw = [&](auto c) -> Contraction {
    c.n = r.between(1, 2);
    c.h = r.between(3, 4);
    c.w = r.between(3, 4);
    c.c = groups * r.between(1, 2);
    c.k = groups * r.one_of({1, 2, 3, 4, 6});
    c.r = r.between(1, 3);
    c.s = r.between(1, 3);
    c.stride = {r.between(1, 2), r.between(1, 2)};
    c.pad = {r.between(0, 1), r.between(0, 1), r.between(0, 1), r.between(0, 1)};
    if (r.chance(0.2) && c.pad[0] + c.pad[2] == 2 && c.pad[1] + c.pad[3] == 2) c.dilation = {2, 2};
    c.groups = groups;
    c.layout = r.chance(0.5) ? Layout::nhwc : Layout::nchw;
    c.dtype_x = c.dtype_w = a;
    return c;
  };
  if (options.transposed_convolutions && r.chance(0.2)) {
    ConvTranspose2d c = std::get<ConvTranspose2d>(draw(ConvTranspose2d{}));
    c.output_pad = {r.below(static_cast<int>(c.stride[0])), r.below(static_cast<int>(c.stride[1]))};
    return c;
  }
  return draw(Conv2d{});
}

RandomCase random_case(std::uint64_t seed, const RandomOptions& options) {
  RandomCase c;
  c.seed = seed;
  c.effects = std::make_shared<EffectLog>();
  c.contraction = random_contraction(seed, options);
  c.graph = random_graph(seed, extents(c.contraction), options, c.effects);
  add_random_forms(c.graph, c.contraction, seed, options);
  random_arguments(c, seed, options);
  return c;
}

}  // namespace unisono::test
