#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/names.hpp"
#include "ir/op_table.hpp"
#include "ir/store_forms.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {

namespace {

class StoreFormVerifier {
 public:
  explicit StoreFormVerifier(const Graph& graph) : g_(graph) {}

  void run() const {
    for (const Store& s : g_.stores) {
      if (s.form > StoreForm::head) throw InternalError(fmt::format("store {} has no such form", s.name));
      if ((s.form == StoreForm::head) != (s.head != nullptr))
        throw InternalError(fmt::format("store {} and its head do not agree", s.name));
      if (s.form != StoreForm::whole && !(g_[s.value].axes == axes::mn))
        refuse(s, fmt::format("is of a value with axes {}; expected [m,n]", to_string(g_[s.value].axes)));
      if (s.form != StoreForm::whole && !is_float(s.dtype))
        refuse(s, fmt::format("has dtype {}; expected a floating-point type", to_string(s.dtype)));
    }
    resampled();
    scratch();
    heads();
  }

 private:
  // One pooled and one upsampled store at most, of one image, which is stored whole too or upsampled alone
  void resampled() const {
    const Store* first = nullptr;
    for (const Store& s : g_.stores) {
      if (s.form != StoreForm::max_pool_2x2 && s.form != StoreForm::upsample_2x2) continue;
      if (first != nullptr && first->form == s.form) refuse_second(s, *first);
      if (first != nullptr && (first->value != s.value || first->dtype != s.dtype))
        refuse(s, fmt::format("differs from {} in its value or dtype; expected the same of both", first->name));
      if (first == nullptr) first = &s;
    }
    if (first != nullptr) has_whole(*first);
  }

  void has_whole(const Store& made) const {
    bool other_type = false, pooled = false;
    for (const Store& s : g_.stores) {
      if (s.form == StoreForm::whole && s.value == made.value && s.dtype == made.dtype) return;
      other_type = other_type || (s.form == StoreForm::whole && s.value == made.value);
      pooled = pooled || s.form == StoreForm::max_pool_2x2;
    }
    if (other_type || pooled)
      refuse(made, fmt::format("needs a store of its value itself as {}; add it, or write {} alone",
                               to_string(made.dtype), to_string(StoreForm::upsample_2x2)));
  }

  // The value of a head, which some other store has not written already
  void scratch() const {
    for (const Store& s : g_.stores) {
      if (s.form != StoreForm::scratch) continue;
      const bool is_multiplied = std::ranges::any_of(
          g_.stores, [&](const Store& x) { return x.form == StoreForm::head && x.value == s.value; });
      if (!is_multiplied) refuse(s, "is of a value without a head; store the value itself, or add its head");
    }
  }

  void heads() const {
    const Store* first = nullptr;
    for (const Store& s : g_.stores) {
      if (s.form != StoreForm::head) continue;
      if (first != nullptr) refuse_second(s, *first);
      first = &s;
      source(s);
      result(s);
      nodes(s);
      names(s);
    }
  }

  // One store says in which dtype the value is multiplied
  void source(const Store& head) const {
    const Store* found = nullptr;
    for (const Store& s : g_.stores) {
      if (s.value != head.value || (s.form != StoreForm::whole && s.form != StoreForm::scratch)) continue;
      if (found != nullptr)
        refuse(head, fmt::format("is of a value that {} and {} store; expected one store, whose dtype is the head's",
                                 found->name, s.name));
      found = &s;
    }
    if (found == nullptr)
      refuse(head,
             "needs a store of its value itself, which says in which dtype it is multiplied: add it, or "
             "scratch(value) if nothing else reads it");
    if (!is_float(found->dtype) || found->dtype == DType::f64)
      refuse(head, fmt::format("multiplies {}, which is stored as {}; expected f32, tf32, f16 or bf16", found->name,
                               to_string(found->dtype)));
  }

  void names(const Store& head) const {
    check_identifier(head.head->filter, "filter");
    std::set<std::string_view> taken, own{head.head->filter, head.name};
    for (const Node& x : g_.nodes)
      if (x.op == Op::operand) taken.insert(x.attr.name);
    for (const Store& s : g_.stores)
      if (&s != &head) taken.insert(s.name);
    for (const Node& x : head.head->graph.nodes) {
      if (x.op != Op::operand) continue;
      if (x.attr.name == head.head->filter)
        refuse(head, fmt::format("reads an operand '{}', as its filter is called; rename one", x.attr.name));
      own.insert(x.attr.name);
    }
    for (const std::string_view name : own)
      if (taken.contains(name))
        refuse(head, fmt::format("has a name '{}' of the main graph's; expected names of its own", name));
  }

  static void result(const Store& head) {
    const Head& h = *head.head;
    if (h.channels < 1 || h.channels > most_head_channels)
      refuse(head, fmt::format("has {} channels; expected 1 to {}, more are a contraction of their own", h.channels,
                               most_head_channels));
    if (h.graph.stores.size() != 1)
      refuse(head, fmt::format("stores {} values, of which one is expected", h.graph.stores.size()));
    const Store& s = h.graph.stores[0];
    if (s.form != StoreForm::whole)
      refuse(head, fmt::format("stores {}({}); expected a whole store", to_string(s.form), s.name));
    verify(h.graph);
    if (s.name != head.name || s.dtype != head.dtype)
      throw InternalError(fmt::format("the head's graph stores {}, and the main graph {}", s.name, head.name));
    if (!(h.graph[s.value].axes == axes::mn))
      refuse(head, fmt::format("stores a value with axes {}; expected [m,n]", to_string(h.graph[s.value].axes)));
  }

  static void nodes(const Store& head) {
    const Graph& g = head.head->graph;
    if (!g.effects.empty()) refuse(head, fmt::format("calls {}, which returns nothing", g[g.effects[0]].attr.name));
    for (const Node& x : g.nodes) {
      if (x.op == Op::acc1) refuse(head, "reads acc1; a head has one accumulator, the sums of its own");
      if (info(x.op).op_class != OpClass::leaf && x.op != Op::call && !is_elementwise(x.op))
        refuse(head, fmt::format("has {}; expected elementwise operations", to_string(x.op)));
      if (x.op == Op::operand && x.axes.row == RowAxis::m)
        refuse(head,
               fmt::format("reads '{}' with axes {}; expected [], [b], [n] or [b,n]", x.attr.name, to_string(x.axes)));
    }
  }

  [[noreturn]] static void refuse_second(const Store& s, const Store& first) {
    refuse(s, fmt::format("is the second {} (the first is {}); a graph has one", to_string(s.form), first.name));
  }

  [[noreturn]] static void refuse(const Store& s, const std::string& what) {
    throw UserError(fmt::format("store {0} ({1}) {2}", s.name, to_string(s.form), what));
  }

  const Graph& g_;
};

}  // namespace

void verify_store_forms(const Graph& graph) { StoreFormVerifier(graph).run(); }

}  // namespace unisono::ir
