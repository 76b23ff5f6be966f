#include "tensors/space.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "ir/op_table.hpp"
#include "tensors/caller.hpp"
#include "tensors/indexed.hpp"
#include "tensors/lines.hpp"
#include "tensors/map.hpp"
#include "tensors/moves.hpp"
#include "tensors/recurrence.hpp"
#include "tensors/reduce.hpp"
#include "tensors/windows.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

constexpr DType integer_types[] = {DType::i8,  DType::u8,  DType::i16, DType::u16,
                                   DType::i32, DType::u32, DType::i64, DType::u64};

// What a network's tensor may be made of
std::vector<ElementType> floats() { return {stored(DType::f32), {DType::f32, DType::bf16}, {DType::f32, DType::f16}}; }
std::vector<ElementType> numbers() {
  std::vector<ElementType> all = floats();
  all.push_back(stored(DType::f64));
  for (const DType t : integer_types) all.push_back(stored(t));
  return all;
}
std::vector<ElementType> types() {
  std::vector<ElementType> all = numbers();
  for (const DType t : {DType::boolean, DType::bf16, DType::f16}) all.push_back(stored(t));
  return all;
}

// Those of `of` that a network takes for the same
std::vector<ElementType> alike(const ElementType& of) {
  return of.value == DType::f32 ? floats() : std::vector<ElementType>{of};
}

StridedTensor dense(const ElementType& type, const Extents& shape) {
  return {type, shape, row_major_strides(shape), 0, 16};
}

class Space {
 public:
  std::vector<KernelText> all() && {
    fixed(), maps(), folds(), lines(), scatters(), windows(), recurrences();
    return std::move(all_);
  }

 private:
  void add(KernelText text) {
    if (seen_.insert(text.source).second) all_.push_back(std::move(text));
  }
  void add(const plan::Expected<Launches>& launches) {
    for (const Launch& l : launches.value().list) add(KernelText{l.source, l.entry});
  }
  void fixed();
  void maps();
  void add_maps(const std::variant<operators::Map, operators::Elementwise>& op, std::vector<ElementType> inputs,
                const ElementType& result, std::size_t operands);
  void folds();
  void lines();
  void scatters();
  void windows();
  void recurrences();

  std::vector<KernelText> all_;
  std::set<std::string> seen_;
};

void Space::fixed() {
  add(move_kernel("move", 2)), add(move_kernel("transpose", 2)), add(indexed_kernel("gather", 2)),
      add(caller_kernel("enter", stored(DType::i64)));
}

// Programs of one operator: `operands` more are added to the inputs, in every way that their type lies in memory
void Space::add_maps(const std::variant<operators::Map, operators::Elementwise>& op, std::vector<ElementType> inputs,
                     const ElementType& result, std::size_t operands) {
  if (operands > 0) {
    for (const ElementType& memory : alike(inputs.back())) {
      std::vector<ElementType> more = inputs;
      more.push_back(memory);
      add_maps(op, std::move(more), result, operands - 1);
    }
    return;
  }
  MapNode node{op, {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) node.operands.push_back(i);
  for (const ElementType& memory : alike(result))
    for (const int chunk : {4, 8}) {
      const auto is_short = [](const ElementType& t) { return size_of(t.memory) <= 2; };
      if ((chunk == 8) != (is_short(memory) && std::all_of(inputs.begin(), inputs.end(), is_short))) continue;
      add(map_text({inputs, {node}, {{inputs.size(), memory}}}, chunk).kernel);
    }
}

// By the table of maps, and the table of operations, which compute f32
void Space::maps() {
  struct Row {
    MapOp op;
    std::size_t operands;
    std::string_view types;
  };
  static constexpr Row rows[] = {
#define UNISONO_MAP(NAME, OPERANDS, TYPES, ...) {MapOp::NAME, OPERANDS, #TYPES},
#include "unisono/network/maps.def"
  };
  for (const Row& row : rows)
    for (const ElementType& t : types()) {
      const bool truth = t.value == DType::boolean, compares = row.types == "comparison" || row.types == "equality";
      if (truth ? row.types != "truth" && row.types != "equality" : row.types == "truth") continue;
      if (t.value == DType::bf16 || t.value == DType::f16) continue;
      if ((row.types == "floats" && !is_float(t.value)) || (row.types == "integers" && is_float(t.value))) continue;
      add_maps(operators::Map{row.op}, {t}, compares ? stored(DType::boolean) : t, row.operands - 1);
    }
  for (const ElementType& t : types()) {
    add_maps(operators::Map{MapOp::select}, {stored(DType::boolean), t}, t, 1);
    for (const ElementType& to : types()) add_maps(operators::Map{MapOp::cast, to.value}, {t}, to, 0);
  }
  for (int i = 0; i < op_count; ++i) {
    const ir::OpInfo& info = ir::info(static_cast<Op>(i));
    const bool real = info.op_class == ir::OpClass::unary || info.op_class == ir::OpClass::binary;
    if (!real || info.type == ir::TypeRule::own || info.type == ir::TypeRule::boolean) continue;
    for (const ElementType& t : floats())
      add_maps(operators::Elementwise{info.op}, {t}, t, static_cast<std::size_t>(info.arity - 1));
  }
}

// By a thread, a warp and a CTA a result
void Space::folds() {
  const std::int64_t warp = 32, cta = 4096;
  const auto fold = [&](const ElementType& from, const ElementType& to, const auto& reduction) {
    for (const std::int64_t length : {std::int64_t{2}, warp, cta})
      add(reduction(dense(from, {8, length}), dense(to, {8, 1})));
  };
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::l1, ReduceOp::l2, ReduceOp::sum_square,
                            ReduceOp::log_sum, ReduceOp::log_sum_exp, ReduceOp::prod, ReduceOp::max, ReduceOp::min})
    for (const ElementType& from : types()) {
      const bool picks = op == ReduceOp::max || op == ReduceOp::min;
      const bool whole = picks || op == ReduceOp::sum || op == ReduceOp::prod || op == ReduceOp::sum_square;
      if (from.value == DType::bf16 || from.value == DType::f16 || (!is_float(from.value) && !whole)) continue;
      if (from.value == DType::boolean && !picks) continue;
      for (const ElementType& to : alike(from))
        fold(from, to, [&](const auto& x, const auto& y) { return reduce({op, {1}, true}, x, y); });
    }
  for (const ElementType& from : numbers())
    for (const bool smallest : {false, true})
      for (const bool last : {false, true})
        fold(from, stored(DType::i64), [&](const auto& x, const auto& y) {
          return arg_reduce({.axis = 1, .smallest = smallest, .keep = true, .last = last}, x, y);
        });
}

void Space::lines() {
  for (const ElementType& t : numbers()) {
    for (const std::int64_t length : {2, 64})
      add(cumulative_sum({.axis = 1}, dense(t, {4, length}), dense(t, {4, length})));
    add(top_k({.axis = 1}, dense(t, {4, 8}), dense(stored(DType::i64), {4, 1})));
  }
}

void Space::scatters() {
  for (const ElementType& t : types())
    for (const ScatterReduction reduction : {ScatterReduction::none, ScatterReduction::add, ScatterReduction::mul,
                                             ScatterReduction::min, ScatterReduction::max}) {
      const bool no_number = t.value == DType::boolean || t.value == DType::bf16 || t.value == DType::f16;
      if (no_number && reduction != ScatterReduction::none) continue;
      add(scatter_nd({reduction},
                     {dense(t, {6, 4}), dense(stored(DType::i64), {3, 1}), dense(t, {3, 4}), dense(t, {6, 4})}));
    }
}

void Space::windows() {
  const Extents image{1, 2, 4, 4}, volume{1, 2, 4, 4, 4};
  const operators::PoolNd pooled{
      .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .before = {0, 0}, .after = {0, 0}};
  operators::PoolNd averaged = pooled, placed = pooled;
  averaged.average = true, placed.indices = true;
  const operators::Conv3d conv{{1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 1, false};
  for (const ElementType& a : numbers()) {
    if (size_of(a.value) < 4) continue;
    for (const ElementType& grid : numbers())
      for (const ElementType& to : alike(a))
        if (is_float(a.value) && is_float(grid.value))
          add(grid_sample({}, dense(a, image), dense(grid, {1, 4, 4, 2}), dense(to, image)));
    for (const ElementType& b : alike(a))
      for (const ElementType& to : alike(a)) add(matmul(dense(a, {4, 4}), dense(b, {4, 4}), dense(to, {4, 4})));
  }
  for (const ElementType& x : floats()) {
    add(pool(placed, dense(x, image), dense(stored(DType::i64), image)));
    for (const ElementType& to : floats()) {
      for (const operators::PoolNd& op : {pooled, averaged}) add(pool(op, dense(x, image), dense(to, image)));
      add(resample({{}, {}, {{0, 1, 2, 3, 4}, {0, 1, 2, 3}, {1, 1, 1, 1}}, {}}, 0, dense(x, image), dense(to, image)));
      for (const ElementType& other : floats()) {
        const StridedTensor filter = dense(other, {2, 2, 1, 1, 1});
        add(convolve(conv, dense(x, volume), filter, nullptr, dense(to, volume)));
        for (const ElementType& added : floats()) {
          const StridedTensor bias = dense(added, {2});
          add(convolve(conv, dense(x, volume), filter, &bias, dense(to, volume)));
        }
      }
    }
  }
}

void Space::recurrences() {
  operators::Recurrence op;
  for (const ElementType& x : numbers()) {
    if (!is_float(x.value)) continue;
    for (const ElementType& w : alike(x))
      for (const ElementType& to : alike(x))
        for (const auto& [cell, linear] : {std::pair{RecurrentCell::rnn, false},
                                           {RecurrentCell::gru, false},
                                           {RecurrentCell::gru, true},
                                           {RecurrentCell::lstm, false}}) {
          op.cell = cell, op.linear_before_reset = linear;
          const std::int64_t columns = 2 * gates_of(cell);
          add(recurrence(op, {dense(x, {1, 1, columns}), dense(w, {1, 2, columns}), dense(to, {3, 1, 2})}));
        }
  }
}

}  // namespace

std::vector<KernelText> every_kernel() { return Space().all(); }

}  // namespace unisono::tensors
