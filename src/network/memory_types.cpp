/// Decides in which type each tensor lies in memory.
///
/// Integers, bool and floats of other widths lie there as they are, f32 as the element. But 16 bits hold too few digits
/// of an integer: step 999 of a diffusion process is 1000 in bf16, with another sine. What is derived only from
/// integers is therefore f32 in memory too, as long as all its readers can read that. So are positions, attention's
/// masks, gradients of parameters that are outputs, and what a model keeps in f32 between its casts (islands.hpp).

#include <algorithm>

#include "network/positions.hpp"
#include "network/regions.hpp"
#include "support/dtypes.hpp"

namespace unisono::network {

namespace {

bool is_cast(const Operator& op) {
  const auto* map = std::get_if<operators::Map>(&op.kind);
  return map != nullptr && map->op == MapOp::cast;
}

class MemoryTypes {
 public:
  explicit MemoryTypes(FusedNetwork& fused)
      : f_(fused), n_(fused.network), tensors_(n_.tensors.size()), region_(n_.operators.size(), 0) {
    for (const TensorId id : n_.inputs) tensors_[id].is_input = true;
    for (const TensorId id : n_.outputs) tensors_[id].is_output = true;
    for (std::size_t i = 0; i < n_.operators.size(); ++i) {
      tensors_[n_.operators[i].output].maker = i;
      for (const TensorId id : data_inputs(n_.operators[i])) tensors_[id].readers.push_back(i);
    }
    for (std::size_t r = 0; r < f_.regions.size(); ++r)
      for (const std::size_t i : f_.regions[r].operators) region_[i] = r;
  }

  void run() {
    f_.own_type.assign(n_.tensors.size(), true);
    f_.exact.assign(n_.tensors.size(), false);
    wished_ = f_.exact;
    if (f_.style.element_bytes == 0) return;
    positions_ = positions(n_);
    find_descendants();
    find_exact();
    for (TensorId id = 0; id < n_.tensors.size(); ++id)
      f_.own_type[id] = is_f32(id) ? n_[id].keeps_f32 || (wished_[id] && all_know_f32(id)) : !is_float_at_border(id);
  }

 private:
  struct Tensor {
    bool is_input = false, is_output = false;
    bool descends = false;  // from integers alone
    bool mask = false;      // of attention, or becomes one
    std::optional<std::size_t> maker;
    std::vector<std::size_t> readers;
  };

  const Operator& op(std::size_t i) const { return n_.operators[i]; }
  const Region& region(std::size_t i) const { return f_.regions[region_[i]]; }
  bool is_f32(TensorId id) const { return n_[id].dtype == DType::f32; }

  bool reads_descendants(const Operator& o) const;
  void find_descendants();
  bool is_computed_with(TensorId id, const std::vector<bool>& moved) const;
  void find_exact();
  bool reads_descendants_alone(const Region& r) const;
  bool is_mask(TensorId id) const;
  bool is_parameters_gradient(const Operator& o) const;
  bool all_know_f32(TensorId id) const;
  bool is_float_at_border(TensorId id) const;

  FusedNetwork& f_;
  const Network& n_;
  std::vector<Tensor> tensors_;      // by id
  std::vector<std::size_t> region_;  // by operator
  std::vector<bool> wished_;         // by tensor: it is to be exact if it can be
  std::vector<bool> positions_;      // by tensor
};

// Whether the operator's result is made of integers, or of floats that are. Indices say where a value lies, and not
// what it is.
bool MemoryTypes::reads_descendants(const Operator& o) const {
  if (is_contraction(o.kind)) return false;
  if (is_cast(o) && is_wide_integer(n_[o.inputs[0]].dtype)) return true;
  bool any = false;
  for (const TensorId id : data_inputs(o)) {
    if (n_[id].is_constant() || !is_float(n_[id].dtype)) continue;
    if (!tensors_[id].descends) return false;
    any = true;
  }
  return any;
}

void MemoryTypes::find_descendants() {
  for (const Operator& o : n_.operators) tensors_[o.output].descends = is_f32(o.output) && reads_descendants(o);
}

bool MemoryTypes::reads_descendants_alone(const Region& r) const {
  for (const std::size_t i : r.operators)
    for (const TensorId id : data_inputs(op(i)))
      if (!n_[id].is_constant() && is_float(n_[id].dtype) && !tensors_[id].descends) return false;
  return true;
}

// Whether what reads it beside contractions computes, or moves it to tensors of which `moved` is true
bool MemoryTypes::is_computed_with(TensorId id, const std::vector<bool>& moved) const {
  const Tensor& t = tensors_[id];
  return std::ranges::any_of(t.readers, [&](std::size_t i) {
    if (t.maker && region_[*t.maker] == region_[i]) return false;
    if (multiplies(n_, region(i))) return false;
    if (is_move(op(i).kind)) return bool{moved[op(i).output]};
    return knows_f32(n_, region(i)) || reads_descendants_alone(region(i));
  });
}

// Whether attention adds it to its scores, or what moves and elementwise operators make of it. A mask may have the
// lowest f32, which 16 bits round to infinity: a row of nothing else would have no softmax
bool MemoryTypes::is_mask(TensorId id) const {
  return is_f32(id) && std::ranges::any_of(tensors_[id].readers, [&](std::size_t i) {
           const bool hands_on = is_move(op(i).kind) || std::holds_alternative<operators::Elementwise>(op(i).kind);
           return is_mask_of(op(i), id) || (hands_on && tensors_[op(i).output].mask);
         });
}

// The gradient of a filter, scale or shift that goes to the caller alone, who learns by it: sums are f32, and small
bool MemoryTypes::is_parameters_gradient(const Operator& o) const {
  const Tensor& t = tensors_[o.output];
  const auto* norm = std::get_if<operators::NormGradient>(&o.kind);
  const bool is_one = std::holds_alternative<operators::FilterGradient>(o.kind) ||
                      (norm != nullptr && norm->of != operators::NormGradient::Of::input);
  return is_one && t.is_output && t.readers.empty();
}

// Whoever reads a tensor stands behind its maker. The caller gets all digits where that costs nothing
void MemoryTypes::find_exact() {
  for (std::size_t i = n_.operators.size(); i-- > 0;) {
    const TensorId id = op(i).output;
    tensors_[id].mask = is_mask(id);
    wished_[id] = is_f32(id) && (positions_[id] || tensors_[id].mask || is_parameters_gradient(op(i)));
    if (!tensors_[id].descends) continue;
    f_.exact[id] = is_computed_with(id, f_.exact);
    wished_[id] = wished_[id] || tensors_[id].is_output || is_computed_with(id, wished_);
  }
  for (const TensorId id : n_.inputs) wished_[id] = positions_[id] || is_mask(id);
}

// What reads nothing but descendants can be computed on the host, and knows f32 there
bool MemoryTypes::all_know_f32(TensorId id) const {
  const auto knows = [&](std::size_t i) { return knows_f32(n_, region(i)) || reads_descendants_alone(region(i)); };
  const Tensor& t = tensors_[id];
  return (!t.maker || knows_f32(n_, region(*t.maker))) && std::ranges::all_of(t.readers, [&](std::size_t i) {
           return is_mask_of(op(i), id) || (!multiplies(n_, region(i)) && knows(i));
         });
}

// A tensor of 16 bits that the caller gives, and that is then f32; or one that the caller takes, and that was f32: it
// is changed to or from the element on its way
bool MemoryTypes::is_float_at_border(TensorId id) const {
  if (n_[id].is_constant() || !support::is_short_float(n_[id].dtype)) return false;
  const Tensor& t = tensors_[id];
  const auto is_widened = [&](std::size_t i) { return is_cast(op(i)) && is_f32(op(i).output); };
  if (t.is_input) return !t.is_output && std::ranges::all_of(t.readers, is_widened);
  return t.is_output && t.readers.empty() && t.maker && is_cast(op(*t.maker)) && is_f32(op(*t.maker).inputs[0]) &&
         !tensors_[op(*t.maker).inputs[0]].descends;
}

}  // namespace

void choose_memory_types(FusedNetwork& fused) { MemoryTypes(fused).run(); }

}  // namespace unisono::network
