#include "families/cutlass_evt/visitor_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "families/cutlass_evt/visitors_of.hpp"
#include "ir/op_table.hpp"

namespace unisono::families::cutlass_evt {

plan::Refusal refused(const Graph& g, ValueId id, std::string_view rule, const std::string& reason) {
  return plan::because(fmt::format("{}: '{}': {}", rule, plan::text_of(g, id), reason));
}

bool is_stored(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }

plan::Expected<Visitors> VisitorBuilder::run() {
  if (auto refusal = refuse_whole()) return *std::move(refusal);
  v_.is_dual = std::ranges::any_of(g_.nodes, [](const Node& x) { return x.op == Op::acc1; });
  choose_store();
  choose_source();
  for (ValueId id = 0; id < g_.nodes.size(); ++id)
    if (auto refusal = add_value(id)) return *std::move(refusal);
  for (std::size_t i = 0; i < g_.stores.size(); ++i)
    if (auto refusal = add_sink(i)) return *std::move(refusal);
  finish();
  return std::move(v_);
}

std::optional<plan::Refusal> VisitorBuilder::refuse_whole() const {
  if (e_.resampled.any())
    return plan::because("node: CUTLASS has no visitor for pooled or upsampled stores; store the whole result");
  if (e_.moments.channels > 0) return plan::because("node: CUTLASS has no visitor for stored statistics");
  if (!g_.effects.empty()) return refused(g_, g_.effects.front(), "node", "a functor cannot be called for its effect");
  if (std::ranges::none_of(g_.stores, [&](const Store& s) { return g_[s.value].axes == axes::mn; }))
    return plan::because(
        "node: the graph stores no value [m,n], and CUTLASS's collective has to store one, as D. Store one as well, "
        "such as 'store acc as y : bf16', or leave out family=cutlass_evt: families sm90_conv and plain store "
        "reductions alone");
  return {};
}

// D is the last store [m,n] in the order of the graph's values: most others stand on the way to it
void VisitorBuilder::choose_store() {
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < g_.stores.size(); ++i) {
    const ValueId value = g_.stores[i].value;
    if (g_[value].axes == axes::mn && (!last || value >= g_.stores[*last].value)) last = i;
  }
  v_.store = *last, v_.store_place = place_of(*last);
  v_.element_d = g_.stores[v_.store].dtype;
}

void VisitorBuilder::add_compute(ValueId id) {
  const Node& x = g_[id];
  Functor f = functor_of(g_, id, !set_.is_2x);
  Visitor v{.kind = VisitorKind::compute, .name = x.name, .inputs = {}};
  v.element = x.dtype == DType::bf16 || x.dtype == DType::f16 ? x.dtype : DType::f32;
  for (const ValueId in : f.inputs)
    v.inputs.push_back(g_[in].op == Op::constant ? constant(g_[in].attr.value, "") : of_value_[in]);
  if (x.op == Op::mul && v.element == DType::f32 && are_one_broadcast(v.inputs)) {  // one broadcast of their product
    v.kind = VisitorKind::scalar;
    for (const int in : v.inputs)
      v.scalars.insert(v.scalars.end(), v_.list[in].scalars.begin(), v_.list[in].scalars.end());
    v.inputs.clear();
    // CUTLASS looks at the first one's stride to see whether any is of a batch
    std::stable_partition(v.scalars.begin(), v.scalars.end(), [](const Scalar& s) { return s.per_batch; });
  } else {
    v.functor = std::move(f);
  }
  of_value_[id] = add(std::move(v));
}

// Scalars whose product is one broadcast. In 2.x it has one stride for all pointers
bool VisitorBuilder::are_one_broadcast(const std::vector<int>& visitors) const {
  bool of_batch = false, of_all = false;
  for (const int at : visitors) {
    if (v_.list[at].kind != VisitorKind::scalar) return false;
    for (const Scalar& s : v_.list[at].scalars)
      if (s.kind == Scalar::Kind::pointer) (s.per_batch ? of_batch : of_all) = true;
  }
  return !set_.is_2x || !of_batch || !of_all;
}

std::optional<plan::Refusal> VisitorBuilder::add_value(ValueId id) {
  const Node& x = g_[id];
  if (ir::info(x.op).op_class == ir::OpClass::leaf) return add_leaf(id);
  if (ir::is_reduction(x.op)) return refuse_reduction(id);
  if (x.op == Op::one_hot) return refused(g_, id, "node", "CUTLASS has no visitor that knows its columns");
  if (!ir::is_elementwise(x.op) && x.op != Op::cast && x.op != Op::call)
    return refused(g_, id, "node", "CUTLASS has no visitor for it");
  const auto is_integer = [&](ValueId in) { return g_[in].dtype == DType::i32 && g_[in].op != Op::constant; };
  if (x.dtype == DType::i32 || std::ranges::any_of(x.inputs, is_integer))
    return refused(g_, id, "node", "visitors compute in f32, not in i32");
  add_compute(id);
  return {};
}

// Visitors from which `target` is computed, itself included
std::vector<bool> VisitorBuilder::reaching(int target) const {
  std::vector<bool> reaches(v_.list.size());
  std::vector<int> open{target};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    if (reaches[at]) continue;
    reaches[at] = true;
    open.insert(open.end(), v_.list[at].inputs.begin(), v_.list[at].inputs.end());
  }
  return reaches;
}

// Sinks pass their input on: where D is computed from that, they stand between. The others are visited ahead of D.
// Then in an order in which each stands behind its inputs.
void VisitorBuilder::finish() {
  int root = of_value_[g_.stores[v_.store].value];
  std::vector<int> loose;
  for (const int sink : sinks_) {
    const int from = v_.list[sink].inputs[0];
    if (!reaching(root)[from]) {
      loose.push_back(sink);
      continue;
    }
    for (int user = 0; user < static_cast<int>(v_.list.size()); ++user)
      if (user != sink) std::ranges::replace(v_.list[user].inputs, from, sink);
    if (root == from) root = sink;
  }
  if (v_.store_place == Place::field) {
    const Store& s = g_.stores[v_.store];
    v_.store_field = add_field(codegen::Field::Kind::store_pointer, s.name, s.dtype, axes::mn);
  }
  const bool computed = v_.list[root].kind == VisitorKind::compute ||
                        v_.list[root].kind >= VisitorKind::scalar_reduction ||
                        v_.list[root].kind == VisitorKind::aux_store;
  if (!loose.empty() || !computed) {
    Visitor last{.kind = VisitorKind::compute, .name = "D", .inputs = {root}, .after = loose};
    last.functor = identity_functor(0);
    root = add(std::move(last));
  }
  std::vector<Visitor> sorted;
  std::vector<int> place(v_.list.size(), no_visitor);
  const auto visit = [&](auto&& self, int at) -> void {
    if (place[at] != no_visitor) return;
    Visitor v = v_.list[at];
    for (auto* list : {&v.inputs, &v.after})
      for (int& in : *list) self(self, in), in = place[in];
    place[at] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(v));
  };
  visit(visit, root);
  v_.list = std::move(sorted);
}

plan::Expected<Visitors> visitors_of(const plan::Epilogue& e, const codegen::Options& options, VisitorSet set) {
  return VisitorBuilder(e, options, set).run();
}

}  // namespace unisono::families::cutlass_evt
