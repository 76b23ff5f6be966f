#include <fmt/format.h>

#include <array>
#include <map>

#include "ir/infer.hpp"
#include "passes/canonicalise.hpp"
#include "passes/eliminate_reductions.hpp"
#include "passes/factor_cross_entropy.hpp"
#include "passes/fuse_multiply_add.hpp"
#include "passes/fuse_operators.hpp"
#include "passes/gather_factors.hpp"
#include "passes/split_normalisations.hpp"
#include "property/check.hpp"
#include "support/random.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::test {

namespace {

using passes::Row;
using passes::Term;

struct Choice {
  const Row* row;
  bool exact;
};

const std::vector<Choice>& all_rows() {
  static const std::vector<Choice> choices = [] {
    std::vector<Choice> r;
    for (const auto* table :
         {&passes::canonical_rows(), &passes::fusion_rows(), &passes::cross_entropy_rows(), &passes::softmax_rows(),
          &passes::reduction_rows(), &passes::multiply_add_rows(), &passes::factor_rows()})
      for (const Row& row : table->rows()) r.push_back({&row, table == &passes::canonical_rows()});
    return r;
  }();
  return choices;
}

// Builds a row's pattern at the end of a graph, its holes filled with values of the graph and with numbers
class Planter {
 public:
  Planter(Graph& graph, const Extents& extents, Random& r)
      : g_(graph),
        extents_(extents),
        r_(r),
        values_(static_cast<ValueId>(graph.nodes.size())),
        dtype_(r.chance(0.15) ? DType::i32 : DType::f32) {}

  ValueId plant(const Term& term) {
    switch (term.kind) {
      case Term::Kind::any: return hole(term.slot, [&] { return value(); });
      case Term::Kind::number: return hole(term.slot, [&] { return constant(number()); });
      case Term::Kind::exactly:
      case Term::Kind::about: return constant(term.value);
      case Term::Kind::computed:
      case Term::Kind::operation: break;
    }
    std::vector<ValueId> inputs;
    for (const auto& in : term.inputs) inputs.push_back(plant(*in));
    const bool swaps = passes::operands_commute(term.op) || term.op == Op::min || term.op == Op::max;
    if (swaps && r_.chance(0.5)) std::swap(inputs[0], inputs[1]);
    Node node;
    node.op = term.op;
    if (term.attributes >= 0) node.attr = attributes(term.attributes, term.op);
    std::vector<const Node*> types;
    for (const ValueId in : inputs) types.push_back(&g_.nodes[in]);
    const auto inferred = ir::infer(node.op, types, node.attr, {});
    node.dtype = inferred.dtype;
    node.axes = inferred.axes;
    node.inputs = std::move(inputs);
    return append(std::move(node));
  }

 private:
  ValueId append(Node node) {
    g_.nodes.push_back(std::move(node));
    return static_cast<ValueId>(g_.nodes.size() - 1);
  }

  template <class Draw>
  ValueId hole(int slot, Draw draw) {
    const auto it = holes_.find(slot);
    return it != holes_.end() ? it->second : holes_[slot] = draw();
  }

  // f32 mostly, since most rows are for f32; at times integers
  ValueId value() {
    for (int i = 0; i < 50; ++i) {
      const auto v = static_cast<ValueId>(r_.below(static_cast<int>(values_)));
      const Node& x = g_[v];
      const bool nothing = x.op == Op::call && !g_.functions.at(x.attr.name)->returns_value;
      if (!nothing && x.op != Op::constant && (x.dtype == dtype_ || r_.chance(0.2))) return v;
    }
    return 0;
  }

  double number() {
    if (r_.chance(0.2)) return r_.uniform(-3, 3);
    return r_.one_of({0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 0.25, 3.0, 4.0, 6.0, 1.5, -2.0});
  }

  ValueId constant(double value) {
    Node node;
    node.op = Op::constant;
    node.attr.value = value;
    return append(std::move(node));
  }

  // One set for each slot
  Attributes attributes(int slot, Op op) {
    if (const auto it = attributes_.find(slot); it != attributes_.end()) return it->second;
    Attributes a;
    if (op == Op::clamp) {
      const double lower = r_.one_of({0.0, -1.0, -0.5, r_.uniform(-2, 1)});
      a.lower = lower;
      a.upper = lower + r_.one_of({0.0, 1.0, 6.0, r_.uniform(0, 3)});
    } else if (op == Op::hardsigmoid) {
      a.alpha = 1.0 / 6;
      a.beta = 0.5;
    } else if (op >= Op::sum && op <= Op::softmax) {
      a.domain.rows = r_.chance(0.6);
      a.domain.cols = !a.domain.rows || r_.chance(0.4);
      a.domain.per_image = a.domain.rows && r_.chance(0.5);
      const bool halves = a.domain.cols && extents_.cols % 2 == 0 && r_.chance(0.3);
      a.domain.groups = halves ? 2 : 1;
    }
    return attributes_[slot] = a;
  }

  Graph& g_;
  const Extents& extents_;
  Random& r_;
  ValueId values_;
  DType dtype_;
  std::map<int, ValueId> holes_;
  std::map<int, Attributes> attributes_;
};

}  // namespace

std::size_t row_count() {
  std::set<std::string_view> names;
  for (const Choice& choice : all_rows()) names.insert(choice.row->name);
  return names.size();
}

std::optional<Failure> check_row(RandomCase& c, Counts& counts) {
  Random r(c.seed ^ 0x726f7773u);
  const Choice& choice = all_rows()[static_cast<std::size_t>(r.below(static_cast<int>(all_rows().size())))];
  const Extents space = extents(c.contraction);
  Graph planted = c.graph;
  try {
    const ValueId root = Planter(planted, space, r).plant(*choice.row->from);
    planted.stores.assign(1, {root, DType::f32, "planted"});
    verify(planted);
  } catch (const UserError&) {  // the values drawn do not fit the pattern: an i32 where it needs a bool, …
    return {};
  }
  passes::Editor editor(planted);
  const passes::RowTable table({*choice.row});
  if (!apply(table, editor)) return {};
  counts.rows.emplace(choice.row->name);
  const Graph after = std::move(editor).finish();
  verify(after);
  std::swap(c.graph, planted);
  auto failure = compare_meaning(c, fmt::format("the row '{}'", choice.row->name), after, choice.exact, counts);
  if (!failure) std::swap(c.graph, planted);
  return failure;
}

}  // namespace unisono::test
