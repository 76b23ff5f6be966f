#include "network/storage.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/op_table.hpp"
#include "network/arena.hpp"
#include "network/dim.hpp"
#include "network/names.hpp"
#include "network/operand_view.hpp"
#include "network/space.hpp"
#include "support/checked.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

Sizes logical_strides(const Sizes& s, std::int64_t row_stride) {
  if (s.size() == 4) return {s[2] * s[3] * row_stride, 1, s[3] * row_stride, row_stride};
  Sizes strides(s.size(), 1);
  std::int64_t step = row_stride;
  for (std::size_t i = s.size(); i-- > 1;) {
    strides[i - 1] = step;
    step *= s[i - 1];
  }
  return strides;
}

Sizes memory_strides(const Memory& m, const Sizes& s) {
  return m.planar ? row_major_strides(s) : logical_strides(s, m.row_stride);
}

namespace {

void bind_input(const NetworkTensor& t, const Sizes& sizes, std::map<std::string, std::int64_t>& symbols) {
  bool fits = sizes.size() == t.shape.size();
  for (std::size_t i = 0; fits && i < sizes.size(); ++i) {
    if (sizes[i] < 0) fits = false;
    if (t.shape[i].known()) {
      fits = fits && t.shape[i].value() == sizes[i];
    } else if (fits) {
      const auto [it, fresh] = symbols.emplace(t.shape[i].symbol(), sizes[i]);
      if (!fresh && it->second != sizes[i])
        throw UserError(fmt::format("input '{}': extent '{}' is {}, and {} elsewhere; one symbol has one value", t.name,
                                    t.shape[i].symbol(), sizes[i], it->second));
    }
  }
  if (!fits)
    throw UserError(fmt::format("input '{}' was given shape {}; expected {}", t.name, to_string(to_shape(sizes)),
                                to_string(t.shape)));
}

}  // namespace

std::vector<Sizes> concrete_shapes(const Network& n, const std::vector<Sizes>& inputs) {
  if (inputs.size() != n.inputs.size()) throw InternalError("sizes of some inputs are missing");
  std::map<std::string, std::int64_t> symbols;
  std::vector<NetworkTensor> tensors(n.tensors);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    bind_input(n[n.inputs[i]], inputs[i], symbols);
    tensors[n.inputs[i]].shape = to_shape(inputs[i]);
  }
  for (const Operator& op : n.operators) {
    std::vector<const NetworkTensor*> types;
    for (const TensorId id : op.inputs) types.push_back(&tensors[id]);
    Shape shape = infer_shape(op.kind, types, where(op));
    const Shape& declared = n[op.output].shape;
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (!may_equal(shape[i], declared.at(i)))
        throw UserError(fmt::format("{}: for these inputs its result has shape {}; the network was built for {}",
                                    where(op), to_string(shape), to_string(declared)));
    tensors[op.output].shape = std::move(shape);
  }
  std::vector<Sizes> result;
  for (TensorId id = 0; id < tensors.size(); ++id) {
    // tensors that no operator makes (dropped ones) keep symbols; they have no memory
    const bool known =
        std::all_of(tensors[id].shape.begin(), tensors[id].shape.end(), [](const Dim& d) { return d.known(); });
    result.push_back(known ? values(tensors[id].shape) : Sizes{});
  }
  return result;
}

namespace {

class StoragePlanner {
 public:
  StoragePlanner(const FusedNetwork& fused, const PlanKey& key, bool reuse)
      : f_(fused), n_(fused.network), key_(key), reuse_(reuse), root_(n_.tensors.size()) {}

  StoragePlan run();

 private:
  struct Use {
    int first = -1, last = -1;
    void at(int step) {
      first = first < 0 ? step : std::min(first, step);
      last = std::max(last, step);
    }
  };

  void check_axes() const;
  void index();
  void check_operand(const RegionOperand& o, const Operator& first) const;
  void find_roots();
  void count_slices();
  void find_uses();
  void run_in_place();
  bool may_overwrite(const Region& r, int step) const;
  bool written_planar(TensorId id) const;
  bool read_planar(TensorId id) const;
  void keep_small(std::vector<Lifetime>& buffers) const;
  std::vector<Use> lives() const;
  std::optional<Memory> given_memory(TensorId id) const;
  void assign();
  void place_within_root(TensorId id);
  std::size_t bytes_of(TensorId id) const {
    const std::int64_t columns = column_count(plan_.shapes[id]), elements = element_count(plan_.shapes[id]);
    const std::int64_t rows = columns == 0 ? 0 : elements / columns;
    return (support::Checked("bytes of a tensor", rows) * f_.pitch(id, columns) * f_.element_bytes(id))
        .to<std::size_t>();
  }
  int last_step() const { return static_cast<int>(f_.regions.size()) + 1; }

  const FusedNetwork& f_;
  const Network& n_;
  const PlanKey& key_;
  bool reuse_;
  StoragePlan plan_;
  using Position = std::optional<std::size_t>;
  std::vector<Position> input_, output_;  // by tensor: its place among the network's
  std::vector<Position> maker_;           // by tensor: the region of which it is an output
  std::vector<int> readers_;              // by tensor: operators that read its elements
  std::vector<Position> reader_;          // by tensor: the region of the last of these
  std::vector<TensorId> root_;            // by tensor: the one whose memory it lives in
  std::vector<std::size_t> at_;           // by tensor: bytes from its root's first element to its own
  std::vector<Use> uses_;                 // by tensor
  std::vector<bool> read_;                // by tensor: by a region that does not make it
  std::vector<int> last_use_;             // by root: step in which any tensor in it is read last
  std::vector<bool> shared_;              // by root: some tensor is a slice or a view of it
};

// Two symbols may be equal for the fuser and differ for these inputs. A backend that reads with any strides repeats the
// elements of a tensor that turns out to have an extent of 1.
void StoragePlanner::check_operand(const RegionOperand& o, const Operator& first) const {
  const Sizes &sizes = plan_.shapes[o.tensor], &space = plan_.shapes[first.output];
  const auto view = operand_view(o, sizes, logical_strides(sizes, column_count(sizes)), space);
  if (view && !view->repeats(o.axes)) return;
  const bool strided = o.axes == axes::mn && (space.size() == 4 || !is_contraction(first.kind));
  if (view && f_.style.repeats && (o.axes.row != RowAxis::m || strided || view->is_uniform())) return;
  throw UserError(
      fmt::format("{}: operand '{}' has shape {} for these inputs, which does not broadcast over {} as {} ({}); give "
                  "the network fixed extents there",
                  where(first), n_[o.tensor].name, to_string(to_shape(sizes)), to_string(to_shape(space)),
                  to_string(n_[o.tensor].shape), to_string(o.axes)));
}

// What the fuser concluded from symbols must hold for the numbers
void StoragePlanner::check_axes() const {
  for (const Region& r : f_.regions) {
    if (r.kind != RegionReport::Kind::contraction && r.kind != RegionReport::Kind::epilogue) continue;
    const Operator& first = n_.operators[r.operators[0]];
    const Sizes& space = plan_.shapes[first.output];
    if (r.source) check_operand({"", *r.source, axes::mn}, first);
    for (const RegionOperand& o : r.operands) check_operand(o, first);
    for (const std::size_t i : r.operators)
      if (plan_.shapes[n_.operators[i].output] != plan_.shapes[first.output])
        throw UserError(fmt::format("{}: has shape {} for these inputs, and {} has {}", where(n_.operators[i]),
                                    to_string(to_shape(plan_.shapes[n_.operators[i].output])), where(first),
                                    to_string(to_shape(space))));
  }
}

void StoragePlanner::index() {
  for (auto* list : {&input_, &output_, &maker_, &reader_}) list->assign(n_.tensors.size(), std::nullopt);
  readers_.assign(n_.tensors.size(), 0);
  for (std::size_t i = n_.inputs.size(); i-- > 0;) input_[n_.inputs[i]] = i;
  for (std::size_t i = n_.outputs.size(); i-- > 0;) output_[n_.outputs[i]] = i;
  for (std::size_t i = 0; i < f_.regions.size(); ++i) {
    const Region& r = f_.regions[i];
    for (const RegionOutput& o : r.outputs)
      if (!maker_[o.tensor]) maker_[o.tensor] = i;
    for (const std::size_t m : r.operators)
      for (const TensorId in : data_inputs(n_.operators[m])) ++readers_[in], reader_[in] = i;
  }
}

// A slice of a slice: offsets add up
void StoragePlanner::find_roots() {
  shared_.assign(n_.tensors.size(), false);
  at_.assign(n_.tensors.size(), 0);
  std::vector<bool> known(n_.tensors.size(), false);
  std::vector<TensorId> way;
  for (TensorId id = 0; id < n_.tensors.size(); ++id) {
    TensorId t = id;
    for (way.clear(); !known[t] && f_.placement[t]; t = f_.placement[t]->base) way.push_back(t);
    if (!known[t]) root_[t] = t, known[t] = true;
    for (; !way.empty(); way.pop_back()) {
      const TensorId x = way.back();
      const Placement& p = *f_.placement[x];
      root_[x] = root_[p.base], known[x] = true;
      at_[x] = at_[p.base] + static_cast<std::size_t>(p.column) * f_.element_bytes(x);
    }
    if (f_.placement[id]) shared_[root_[id]] = true;
  }
}

// Inputs of concatenations that their producers write where they belong
void StoragePlanner::count_slices() {
  for (const Operator& op : n_.operators) {
    if (!std::holds_alternative<operators::Concat>(op.kind)) continue;
    for (const TensorId id : op.inputs)
      if (f_.placement[id] && f_.placement[id]->base == op.output) ++plan_.slices;
  }
}

void StoragePlanner::find_uses() {
  uses_.assign(n_.tensors.size(), {});
  read_.assign(n_.tensors.size(), false);
  for (const TensorId id : n_.inputs) uses_[id].at(0);
  for (std::size_t i = 0; i < f_.regions.size(); ++i) {
    const Region& r = f_.regions[i];
    if (r.kind == RegionReport::Kind::free) continue;
    const int step = static_cast<int>(i) + 1;
    std::vector<TensorId> made;  // in the region; only those stored have memory
    for (const RegionOutput& o : r.outputs)
      if (r.only_upsampled != o.tensor) uses_[o.tensor].at(step);
    for (const ResampledStore& s : r.resampled) uses_[s.to].at(step);
    if (r.reduced) uses_[r.reduced->to].at(step);
    if (r.layers) uses_[r.layers->pooled].at(step);
    if (r.layers && r.layers->pool) uses_[r.layers->from].at(step);
    for (const std::size_t m : r.operators) {
      for (const TensorId id : data_inputs(n_.operators[m]))
        if (std::find(made.begin(), made.end(), id) == made.end()) {
          uses_[id].at(step);
          read_[id] = true;
        }
      made.push_back(n_.operators[m].output);
    }
  }
  for (const TensorId id : n_.outputs) uses_[id].at(last_step());
}

bool StoragePlanner::may_overwrite(const Region& r, int step) const {
  if (!f_.style.in_place || r.kind != RegionReport::Kind::epilogue || !r.source || r.outputs.size() != 1) return false;
  // a reduction needs all elements before the first is written
  for (const Node& node : r.graph.nodes)
    if (ir::info(node.op).op_class != ir::OpClass::leaf && !ir::is_elementwise(node.op)) return false;
  const TensorId from = *r.source, to = r.outputs[0].tensor;
  if (shared_[root_[from]] || f_.placement[to] || shared_[to] || n_[from].is_constant()) return false;
  if (input_[from] || output_[to] || output_[from]) return false;
  return last_use_[root_[from]] <= step && plan_.shapes[from] == plan_.shapes[to];
}

// Whether one region makes the tensor for the caller alone, and can write it with the channels first
bool StoragePlanner::written_planar(TensorId id) const {
  if (read_[id] || shared_[id] || plan_.shapes[id].size() != 4) return false;
  if (!maker_[id]) return false;
  const Region& r = f_.regions[*maker_[id]];
  if (r.kind != RegionReport::Kind::contraction && r.kind != RegionReport::Kind::epilogue) return false;
  for (std::size_t i = 0; i < r.outputs.size(); ++i)
    if (r.outputs[i].tensor == id) return r.graph[r.graph.stores[i].value].axes == axes::mn;
  return false;
}

// Whether the image of one convolution, and nothing else
bool StoragePlanner::read_planar(TensorId id) const {
  if (shared_[id] || plan_.shapes[id].size() != 4 || output_[id] || readers_[id] != 1) return false;
  const Region& r = f_.regions[*reader_[id]];
  return r.kind == RegionReport::Kind::contraction && n_.operators[r.operators[0]].inputs[0] == id;
}

void StoragePlanner::run_in_place() {
  last_use_.assign(root_.size(), -1);
  for (TensorId id = 0; id < root_.size(); ++id) last_use_[root_[id]] = std::max(last_use_[root_[id]], uses_[id].last);
  for (std::size_t i = 0; reuse_ && i < f_.regions.size(); ++i) {
    const Region& r = f_.regions[i];
    if (!may_overwrite(r, static_cast<int>(i) + 1)) continue;
    const TensorId to = r.outputs[0].tensor;
    root_[to] = root_[*r.source];
    last_use_[root_[to]] = std::max(last_use_[root_[to]], uses_[to].last);
    ++plan_.in_place;
  }
}

// Memory of their own for tensors that take next to none: nobody then waits for who had it before
void StoragePlanner::keep_small(std::vector<Lifetime>& buffers) const {
  support::Checked sum("bytes of all tensors", 0);
  for (const Lifetime& b : buffers) sum += b.bytes;
  for (Lifetime& b : buffers)
    if (b.bytes <= std::min(f_.style.kept_bytes, sum.to<std::size_t>() / 64)) b.first = 0, b.last = last_step();
}

// The first and last step at which the memory of each root is used
std::vector<StoragePlanner::Use> StoragePlanner::lives() const {
  std::vector<Use> life(n_.tensors.size());
  for (TensorId id = 0; id < root_.size(); ++id) {
    if (uses_[id].first < 0) continue;
    life[root_[id]].at(uses_[id].first);
    life[root_[id]].at(uses_[id].last);
  }
  return life;
}

// A constant, or memory of the caller's; nothing if the tensor needs a place in the arena
std::optional<Memory> StoragePlanner::given_memory(TensorId id) const {
  const Position &input = input_[id], &output = output_[id];
  if (n_[id].is_constant()) return Memory{.where = Memory::Where::constant, .index = id};
  if (input && key_.direct_inputs[*input]) return Memory{.where = Memory::Where::input, .index = *input};
  if (input && key_.planar_inputs[*input] && read_planar(id))
    return Memory{.where = Memory::Where::input, .index = *input, .planar = true};
  if (output && key_.direct_outputs[*output]) return Memory{.where = Memory::Where::output, .index = *output};
  if (output && key_.planar_outputs[*output] && written_planar(id))
    return Memory{.where = Memory::Where::output, .index = *output, .planar = true};
  return std::nullopt;
}

void StoragePlanner::assign() {
  const std::vector<Use> life = lives();
  plan_.memory.resize(n_.tensors.size());
  std::vector<Lifetime> buffers;
  std::vector<TensorId> owners;
  for (TensorId id = 0; id < root_.size(); ++id) {
    if (root_[id] != id || life[id].first < 0) continue;
    if (const auto given = given_memory(id)) {
      plan_.memory[id] = *given;
    } else {
      buffers.push_back({.bytes = bytes_of(id), .first = life[id].first, .last = life[id].last});
      owners.push_back(id);
    }
  }
  keep_small(buffers);
  const ArenaPlan arena = plan_arena(buffers, reuse_);
  plan_.arena_bytes = arena.bytes;
  for (std::size_t i = 0; i < owners.size(); ++i)
    plan_.memory[owners[i]] = {.where = Memory::Where::arena, .index = arena.offsets[i]};
  for (TensorId id = 0; id < root_.size(); ++id)
    if (life[root_[id]].first >= 0) place_within_root(id);
}

// The memory of its root, at the offset and with the strides of a slice if it is one
void StoragePlanner::place_within_root(TensorId id) {
  Memory& m = plan_.memory[id] = plan_.memory[root_[id]];
  const std::int64_t columns = f_.pitch(id, column_count(plan_.shapes[id]));
  m.row_stride = columns;
  m.unused = (root_[id] == id ? last_use_[id] : uses_[id].last) < 1;  // an input may be read through views alone
  if (f_.placement[id]) m.offset = at_[id];
  if (!f_.placement[id] || !f_.placement[id]->slice) return;
  m.row_stride =  // as far apart as in the outermost
      f_.pitch(root_[id], column_count(plan_.shapes[root_[id]]));
  m.dense = m.row_stride == columns;
}

StoragePlan StoragePlanner::run() {
  plan_.shapes = concrete_shapes(n_, key_.inputs);
  check_axes();
  index();
  find_roots();
  count_slices();
  find_uses();
  run_in_place();
  assign();
  // what memory would be taken if every tensor had its own, slices and views included
  for (TensorId id = 0; id < root_.size(); ++id)
    if (uses_[id].first >= 0 && plan_.memory[id].where == Memory::Where::arena)
      plan_.without_reuse =
          (support::Checked("bytes of all tensors", plan_.without_reuse) + arena_size(bytes_of(id))).to<std::size_t>();
  return std::move(plan_);
}

}  // namespace

StoragePlan plan_storage(const FusedNetwork& fused, const PlanKey& key, bool reuse) {
  return StoragePlanner(fused, key, reuse).run();
}

}  // namespace unisono::network
