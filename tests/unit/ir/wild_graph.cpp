#include "wild_graph.hpp"

#include <limits>
#include <numeric>
#include <utility>

#include "ir/op_table.hpp"
#include "support/random.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"

namespace unisono::test {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

const std::vector<double>& odd_numbers() {
  static const std::vector<double> numbers{0,
                                           -0.0,
                                           1,
                                           -1,
                                           2,
                                           0.1,
                                           -1e-5,
                                           1.0 / 3,
                                           1e30,
                                           -1e-300,
                                           5e-324,
                                           infinity,
                                           -infinity,
                                           0x1p31,
                                           123456789,
                                           1e15,
                                           1e16,
                                           -2.5,
                                           std::numeric_limits<double>::quiet_NaN(),
                                           std::numeric_limits<double>::max()};
  return numbers;
}

class WildGenerator {
 public:
  explicit WildGenerator(std::uint64_t seed) : random_(seed) {
    for (const UserFunction& f : wild_functions()) g_.define(f);
  }

  Graph run() {
    leaves();
    for (int left = random_.between(1, 40); left > 0;) left -= operation() ? 1 : 0;
    const int stores = random_.between(1, 5);
    for (int i = 0; i < stores; ++i) store(i);
    return g_.build();
  }

 private:
  void leaves() {
    values_.push_back(g_.acc());
    const std::vector<Axes> all{axes::scalar, axes::b, axes::m, axes::n, axes::bn, axes::mn};
    const int operands = random_.between(0, 6);
    for (int i = 0; i < operands; ++i) {
      const Axes a = random_.one_of(all);
      OperandOptions options;
      if (random_.chance(0.4)) options.storage = some_dtype();
      const bool integral = options.storage && !is_float(*options.storage);
      if (a == axes::scalar && random_.chance(0.5))
        options.default_value = integral ? 1 : random_.one_of(odd_numbers());
      const auto name = random_.one_of({"bias", "x", "t", "m", "over", "f32", "_"}) + std::to_string(i);
      values_.push_back(g_.operand(name, a, options));
    }
    for (int i = random_.below(5); i > 0; --i) values_.push_back(g_.constant(random_.one_of(odd_numbers())));
    for (int i = random_.below(3); i > 0; --i) values_.push_back(g_.index(coordinate()));
    for (int i = random_.below(3); i > 0; --i) values_.push_back(g_.extent(coordinate()));
  }

  Coordinate coordinate() { return static_cast<Coordinate>(random_.below(5)); }

  DType some_dtype() {
    return random_.one_of({DType::f64, DType::f32, DType::tf32, DType::f16, DType::bf16, DType::i32, DType::boolean});
  }

  Value some_value() {
    // Recent values more often, so that graphs grow deep
    const int n = static_cast<int>(values_.size());
    return values_[random_.chance(0.5) ? std::max(0, n - 1 - random_.below(4)) : random_.below(n)];
  }

  bool operation() {
    const auto op = static_cast<Op>(random_.below(op_count));
    if (ir::info(op).op_class == ir::OpClass::leaf) return false;
    try {
      if (op == Op::call) return call();
      Attributes attr = attributes(op);
      const int inputs = ir::is_normalisation(op) ? 1 + attr.has_scale + attr.has_shift : ir::info(op).arity;
      std::vector<Value> chosen;
      for (int i = 0; i < inputs; ++i) chosen.push_back(some_value());
      values_.push_back(
          g_.node(op, chosen, std::move(attr), op == Op::cast ? std::optional(some_dtype()) : std::nullopt));
    } catch (const UserError&) {
      return false;  // these inputs do not fit this operation: draw again
    }
    name_some(values_.back());
    return true;
  }

  bool call() {
    const UserFunction& f = random_.one_of(wild_functions());
    std::vector<Value> inputs;
    for (int i = 0; i < f.arity; ++i) inputs.push_back(some_value());
    if (const auto v = g_.call(f.name, inputs)) values_.push_back(*v);
    return true;
  }

  Attributes attributes(Op op) {
    Attributes a;
    for (const auto& p : ir::info(op).parameters)
      a.*p.field = random_.chance(0.3) ? p.fallback : random_.one_of(odd_numbers());
    if (ir::is_normalisation(op)) {
      a.domain = ir::normalisation_domain(op, op == Op::group_norm ? random_.one_of({1, 3, 32, 1 << 20}) : 1);
      a.has_scale = random_.chance(0.5);
      a.has_shift = op != Op::rms_norm && random_.chance(0.5);
    } else if (ir::is_reduction(op) || op == Op::softmax) {
      a.domain = {.rows = random_.chance(0.6), .cols = random_.chance(0.6), .per_image = random_.chance(0.3)};
      if (a.domain.cols && random_.chance(0.3)) a.domain.groups = random_.between(2, 9);
    }
    return a;
  }

  // Names of all kinds, clashing ones among them: names are no part of the meaning
  void name_some(Value v) {
    if (random_.chance(0.3))
      v.named(random_.one_of({"h", "y", "t0", "t1", "t2", "bias0", "x1", "out0", "h_1", "probe3x"}));
  }

  void store(int i) {
    const Value v = some_value();
    const auto name =
        random_.chance(0.4) ? std::string() : random_.one_of({"y", "h", "t0", "out", "bias"}) + std::to_string(i);
    try {
      g_.store(v, random_.chance(0.5) ? v.dtype() : some_dtype(), name);
    } catch (const UserError&) {
      g_.store(v, DType::f32, "unique_" + std::to_string(i));  // the value's own name was taken by another store
    }
  }

  Random random_;
  GraphBuilder g_;
  std::vector<Value> values_;
};

}  // namespace

const std::vector<UserFunction>& wild_functions() {
  const auto zero = [](std::span<const double>) { return 0.0; };
  static const std::vector<UserFunction> functions{
      {.name = "ticks", .arity = 0, .returns_value = true, .cuda_source = {}, .cpu = zero},
      {.name = "warp", .arity = 1, .returns_value = true, .cuda_source = {}, .cpu = zero},
      {.name = "blend", .arity = 3, .returns_value = true, .cuda_source = {}, .cpu = zero},
      {.name = "probe", .arity = 1, .returns_value = false, .cuda_source = {}, .cpu = zero},
      {.name = "probe3", .arity = 3, .returns_value = false, .cuda_source = {}, .cpu = zero},
  };
  return functions;
}

Graph wild_graph(std::uint64_t seed) { return WildGenerator(seed).run(); }

Graph without_dead_values(Graph graph) {
  std::vector<bool> used(graph.nodes.size());
  for (const Node& x : graph.nodes)
    for (const ValueId in : x.inputs) used[in] = true;
  for (const Store& s : graph.stores) used[s.value] = true;
  for (const ValueId e : graph.effects) used[e] = true;
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (!used[id]) graph.stores.push_back({id, graph[id].dtype, "unused" + std::to_string(id)});
  return graph;
}

Graph shuffled(const Graph& graph, std::uint64_t seed) {
  Random random(seed);
  const std::size_t n = graph.nodes.size();
  Graph result = graph;
  result.nodes.clear();
  std::vector<ValueId> new_id(n);
  std::vector<std::size_t> left(n);
  std::iota(left.begin(), left.end(), 0);
  std::vector<bool> placed(n);
  while (!left.empty()) {
    const auto i = static_cast<std::size_t>(random.below(static_cast<int>(left.size())));
    Node node = graph.nodes[left[i]];
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) { return placed[in]; })) continue;
    for (ValueId& in : node.inputs) in = new_id[in];
    const bool twice = ir::info(node.op).op_class == ir::OpClass::leaf && node.op != Op::operand && random.chance(0.5);
    if (twice) result.nodes.push_back(node);
    new_id[left[i]] = static_cast<ValueId>(result.nodes.size());
    result.nodes.push_back(std::move(node));
    placed[left[i]] = true;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (Store& s : result.stores) s.value = new_id[s.value];
  for (ValueId& e : result.effects) e = new_id[e];
  return result;
}

}  // namespace unisono::test
