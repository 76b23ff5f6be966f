#include "network/islands.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/op_table.hpp"
#include "network/attention_match.hpp"
#include "network/space.hpp"
#include "support/float_convert.hpp"

namespace unisono::network {

namespace {

const operators::Map* conversion_of(const Operator& op) {
  const auto* map = std::get_if<operators::Map>(&op.kind);
  return map != nullptr && map->op == MapOp::cast ? map : nullptr;
}

// Whether the results are some of the inputs, but for their sign: of values of 16 bits they have 16 bits, and rounded
// inputs make what rounding the result would
bool picks_inputs(const OperatorKind& kind) {
  if (is_move(kind)) return true;
  if (const auto* e = std::get_if<operators::Elementwise>(&kind)) return ir::info(e->op).picks;
  if (const auto* r = std::get_if<operators::Reduce>(&kind)) return r->op == ReduceOp::max || r->op == ReduceOp::min;
  if (const auto* p = std::get_if<operators::Pool2d>(&kind)) return !p->average;
  if (const auto* p = std::get_if<operators::PoolNd>(&kind)) return !p->average;
  const auto* map = std::get_if<operators::Map>(&kind);
  return map != nullptr && (map->op == MapOp::select || map->op == MapOp::neg || map->op == MapOp::abs ||
                            map->op == MapOp::max || map->op == MapOp::min);
}

// Kinds whose kernels read f32 in one type of memory and write it in the same
bool keeps_type(const OperatorKind& kind) {
  return !is_contraction(kind) && !is_pointwise(kind) && !converts(kind) &&
         !std::holds_alternative<operators::Attention>(kind) && !std::holds_alternative<operators::NormGradient>(kind);
}

class IslandFinder {
 public:
  IslandFinder(const Network& network, DType element)
      : n_(network), element_(element), island_(n_.tensors.size()), digits_(island_), needed_(island_) {}

  std::vector<bool> run();
  const std::vector<bool>& islands() const { return island_; }

 private:
  bool is_f32(TensorId id) const { return n_[id].dtype == DType::f32; }
  bool ends(const Operator& op) const;
  bool has_digits(const NetworkTensor& constant) const;
  bool makes_digits(const Operator& op) const;
  bool needs_digits(const Operator& op) const;

  const Network& n_;
  DType element_;
  std::vector<bool> island_, digits_, needed_;  // by tensor
};

// Whether the operator rounds to the element
bool IslandFinder::ends(const Operator& op) const {
  if (const auto* cast = conversion_of(op)) return cast->to == element_;
  return std::holds_alternative<operators::Identity>(op.kind) && !n_[op.output].keeps_f32;
}

bool IslandFinder::has_digits(const NetworkTensor& constant) const {
  if (!constant.constant) return false;
  return std::ranges::any_of(*constant.constant, [&](float x) {
    const auto given = static_cast<double>(x);
    return given == given && support::round_to(given, element_) != given;
  });
}

bool IslandFinder::makes_digits(const Operator& op) const {
  if (!picks_inputs(op.kind)) return true;
  if (const auto* pad = std::get_if<operators::Pad>(&op.kind); pad != nullptr && pad->mode == PadMode::constant)
    if (support::round_to(pad->value, element_) != pad->value) return true;
  return std::ranges::any_of(data_inputs(op), [&](TensorId id) {
    return is_f32(id) && (n_[id].is_constant() ? has_digits(n_[id]) : bool{digits_[id]});
  });
}

// Whether the operator needs all digits of what it reads
bool IslandFinder::needs_digits(const Operator& op) const {
  if (ends(op)) return false;
  return !picks_inputs(op.kind) || !is_f32(op.output) || needed_[op.output];
}

std::vector<bool> IslandFinder::run() {
  for (const Operator& op : n_.operators) {
    const TensorId id = op.output;
    const auto is_within = [&](TensorId input) { return bool{island_[input]}; };
    island_[id] = is_f32(id) && !ends(op) && (n_[id].keeps_f32 || std::ranges::any_of(data_inputs(op), is_within));
    digits_[id] = island_[id] && makes_digits(op);
  }
  for (const TensorId id : n_.outputs) needed_[id] = true;
  for (std::size_t i = n_.operators.size(); i-- > 0;)
    if (needs_digits(n_.operators[i]))
      for (const TensorId id : data_inputs(n_.operators[i])) needed_[id] = true;
  std::vector<bool> kept(n_.tensors.size());
  for (TensorId id = 0; id < kept.size(); ++id) kept[id] = digits_[id] && needed_[id];
  return kept;
}

}  // namespace

bool has_octets(const Shape& shape) {
  if (shape.empty()) return false;
  const Dim width = columns(shape);
  return width.known() && width.value() % 8 == 0;
}

bool stores_islands(const Network& n, const Region& r) {
  if (knows_f32(n, r)) return true;
  return r.kind == RegionReport::Kind::epilogue && has_octets(n[n.operators[r.operators[0]].output].shape);
}

std::vector<bool> kept_in_f32(const Network& network, DType element) { return IslandFinder(network, element).run(); }

Network with_roundings(Network n, DType element) {
  if (std::ranges::none_of(n.tensors, &NetworkTensor::keeps_f32)) return n;
  std::vector<const Operator*> maker(n.tensors.size(), nullptr);
  for (const Operator& op : n.operators) maker[op.output] = &op;
  std::vector<std::pair<std::size_t, TensorId>> ends;  // casts back to f32, and what had been rounded
  for (std::size_t i = 0; i < n.operators.size(); ++i) {
    const auto* back = conversion_of(n.operators[i]);
    const Operator* cast = back == nullptr || back->to != DType::f32 ? nullptr : maker[n.operators[i].inputs[0]];
    const auto* rounds = cast == nullptr ? nullptr : conversion_of(*cast);
    if (rounds != nullptr && rounds->to == element && n[cast->inputs[0]].keeps_f32)
      ends.emplace_back(i, cast->inputs[0]);
  }
  for (const auto& [i, rounded] : ends) n.operators[i].kind = operators::Identity{}, n.operators[i].inputs = {rounded};
  return n;
}

namespace {

// One walk over the operators: those that an island needs in another form are written anew
class IslandWriter {
 public:
  IslandWriter(Network network, std::vector<bool> kept, DType element)
      : n_(std::move(network)), kept_(std::move(kept)), element_(element) {}

  // `in_f32`: results of contractions that are to be computed in f32
  void write(const std::vector<bool>& in_f32);
  const Network& network() const { return n_; }
  Network take() { return std::move(n_); }
  bool is_kept(TensorId id) const { return kept_[id]; }
  std::size_t tensors() const { return n_.tensors.size(); }
  void store(const std::vector<bool>& stored) {
    for (TensorId id = 0; id < n_.tensors.size(); ++id) n_.tensors[id].keeps_f32 = id < stored.size() && stored[id];
  }
  void spread();
  void drop_roundings();
  void join_squares();

 private:
  bool is_f32(TensorId id) const { return n_[id].dtype == DType::f32; }
  bool reads_kept(const Operator& op) const {
    return std::ranges::any_of(data_inputs(op), [&](TensorId id) { return bool{kept_[id]}; });
  }
  bool reads_fine_constant(const Operator& op) const;
  bool needs_other_form(const Operator& op, const std::vector<bool>& in_f32) const;
  void widen_inputs(Operator& op, std::vector<Operator>& to);

  Network n_;
  std::vector<bool> kept_;
  DType element_;
  std::map<TensorId, TensorId> widened_;  // by a tensor of 16 bits: the same in f32
};

bool IslandWriter::reads_fine_constant(const Operator& op) const {
  return std::ranges::any_of(data_inputs(op), [&](TensorId id) {
    return n_[id].constant && std::ranges::any_of(*n_[id].constant, [&](float x) {
             const auto given = static_cast<double>(x);
             return given == given && support::round_to(given, element_) != given;
           });
  });
}

// Kernels that keep types are in f32 as a whole; so is what a product by weights of f32 makes
void IslandWriter::spread() {
  for (const Operator& op : n_.operators) {
    if (!is_f32(op.output) || n_[op.output].is_constant()) continue;
    const bool multiplies = is_contraction(op.kind) || std::holds_alternative<operators::MatMul>(op.kind);
    if (keeps_type(op.kind) && reads_kept(op)) kept_[op.output] = true;
    if (multiplies && n_[op.output].keeps_f32 && reads_fine_constant(op)) kept_[op.output] = true;
  }
}

// Roundings of what has 16 bits are none
void IslandWriter::drop_roundings() {
  std::vector<TensorId> alias(n_.tensors.size());
  for (TensorId id = 0; id < alias.size(); ++id) alias[id] = id;
  std::vector<Operator> all;
  for (Operator& op : n_.operators) {
    for (TensorId& id : op.inputs) id = alias[id];
    const bool moves_nothing = std::holds_alternative<operators::Identity>(op.kind) && !kept_[op.inputs[0]];
    if (moves_nothing && std::ranges::find(n_.outputs, op.output) == n_.outputs.end()) {
      alias[op.output] = op.inputs[0];
    } else {
      all.push_back(std::move(op));
    }
  }
  n_.operators = std::move(all);
}

// What an operator squares; nothing of another
std::optional<TensorId> squared_by(const Operator& op) {
  const auto* e = std::get_if<operators::Elementwise>(&op.kind);
  if (e == nullptr) return std::nullopt;
  const bool squares = e->op == Op::square || (e->op == Op::mul && op.inputs[0] == op.inputs[1]);
  return squares ? std::optional(op.inputs[0]) : std::nullopt;
}

// The terms of each sum, if that is known
std::optional<double> terms_of(const operators::Reduce& r, const Shape& x) {
  double terms = 1;
  for (const int axis : r.axes) {
    const Dim& extent = x[static_cast<std::size_t>(axis)];
    if (!extent.known() || extent.value() == 0) return std::nullopt;
    terms *= static_cast<double>(extent.value());
  }
  return r.axes.empty() ? std::nullopt : std::optional(terms);
}

// A mean of squares that nothing else reads, as norms have it, becomes a sum of squares: the squares would be stored in
// f32
void IslandWriter::join_squares() {
  const TensorUses uses(n_);
  std::map<const Operator*, TensorId> means;  // and what is squared for them
  std::set<const Operator*> squares;
  for (const Operator& op : n_.operators) {
    const auto* mean = std::get_if<operators::Reduce>(&op.kind);
    if (mean == nullptr || mean->op != ReduceOp::mean || !kept_[op.inputs[0]]) continue;
    const Operator* made_by = uses.only_reader(op.inputs[0]) == &op ? uses.producer(op.inputs[0]) : nullptr;
    const auto x = made_by == nullptr ? std::nullopt : squared_by(*made_by);
    if (!x || !terms_of(*mean, n_[*x].shape)) continue;
    means.emplace(&op, *x);
    squares.insert(made_by);
  }
  std::vector<Operator> all;
  for (const Operator& op : n_.operators) {
    const auto mean = means.find(&op);
    if (mean == means.end()) {
      if (!squares.contains(&op)) all.push_back(op);
      continue;
    }
    operators::Reduce sums = std::get<operators::Reduce>(op.kind);
    sums.op = ReduceOp::sum_square;
    const auto sum = static_cast<TensorId>(n_.tensors.size());
    const auto factor = static_cast<float>(1 / *terms_of(sums, n_[mean->second].shape));
    n_.tensors.push_back(n_[op.output]);
    n_.tensors.back().name += "_sum";
    n_.tensors.push_back({"number", DType::f32, {}, std::make_shared<const std::vector<float>>(1, factor)});
    kept_.insert(kept_.end(), {true, false});
    all.push_back({std::move(sums), n_[sum].name, {mean->second}, sum});
    all.push_back({operators::Elementwise{.op = Op::mul}, op.name, {sum, sum + 1}, op.output});
  }
  n_.operators = std::move(all);
}

bool IslandWriter::needs_other_form(const Operator& op, const std::vector<bool>& in_f32) const {
  const bool is_kept = kept_[op.output] || reads_kept(op);
  if (is_contraction(op.kind)) {
    const bool is_asked = op.output < in_f32.size() && in_f32[op.output];
    return is_asked || (n_[op.output].keeps_f32 && (reads_kept(op) || (kept_[op.output] && reads_fine_constant(op))));
  }
  const bool is_norm =
      std::holds_alternative<operators::Normalisation>(op.kind) || std::holds_alternative<operators::Softmax>(op.kind);
  if (is_norm) return is_kept && !has_octets(n_[op.output].shape);
  return is_kept && (std::holds_alternative<operators::Pool2d>(op.kind) ||
                     std::holds_alternative<operators::GlobalAveragePool>(op.kind) ||
                     std::holds_alternative<operators::Resize>(op.kind));
}

void IslandWriter::widen_inputs(Operator& op, std::vector<Operator>& to) {
  for (std::size_t i = 0; i < data_inputs(op).size(); ++i) {
    TensorId& id = op.inputs[i];
    if (!is_f32(id) || n_[id].is_constant() || kept_[id]) continue;
    const auto [at, is_new] = widened_.emplace(id, static_cast<TensorId>(n_.tensors.size()));
    if (is_new) {
      NetworkTensor wide = n_[id];
      wide.name += "_f32";
      n_.tensors.push_back(std::move(wide));
      kept_.push_back(true);
      to.push_back({operators::Identity{}, n_[at->second].name, {id}, at->second});
    }
    id = at->second;
  }
}

void IslandWriter::write(const std::vector<bool>& in_f32) {
  std::vector<Operator> all, given = std::exchange(n_.operators, {});
  for (Operator& op : given) {
    std::vector<Operator> parts;
    if (!needs_other_form(op, in_f32)) {
      parts.push_back(std::move(op));
    } else {
      parts = is_contraction(op.kind) ? written_in_f32(n_, kept_, op) : written_out(n_, kept_, op);
    }
    for (Operator& part : parts) {
      if (keeps_type(part.kind) && is_f32(part.output) && kept_[part.output]) widen_inputs(part, all);
      all.push_back(std::move(part));
    }
  }
  n_.operators = std::move(all);
}

// Tensors of islands that leave a region, beside those known; whether there are some
bool find_stored(const FusedNetwork& f, const IslandWriter& writer, std::vector<bool>& stored,
                 std::vector<bool>& in_f32) {
  bool any = false;
  std::vector<const Operator*> maker(f.network.tensors.size(), nullptr);
  for (const Operator& op : f.network.operators) maker[op.output] = &op;
  for (const Region& r : f.regions)
    for (const RegionOutput& o : r.outputs) {
      if (!writer.is_kept(o.tensor) || stored[o.tensor]) continue;
      stored[o.tensor] = any = true;
      if (is_contraction(maker[o.tensor]->kind)) in_f32[o.tensor] = true;
    }
  return any;
}

}  // namespace

Network with_islands(Network network, DType element, const std::function<FusedNetwork(const Network&)>& fused) {
  if (std::ranges::none_of(network.tensors, &NetworkTensor::keeps_f32)) return network;
  IslandFinder finder(network, element);
  std::vector<bool> kept = finder.run();
  for (TensorId id = 0; id < kept.size(); ++id) network.tensors[id].keeps_f32 = finder.islands()[id];
  IslandWriter writer(std::move(network), std::move(kept), element);
  writer.spread();
  writer.drop_roundings();
  writer.join_squares();
  writer.write({});
  std::vector<bool> stored, in_f32;
  for (bool again = true; again;) {
    stored.resize(writer.tensors()), in_f32.assign(writer.tensors(), false);
    writer.store(stored);
    again = find_stored(fused(writer.network()), writer, stored, in_f32);
    if (again) writer.write(in_f32);
  }
  return writer.take();
}

}  // namespace unisono::network
