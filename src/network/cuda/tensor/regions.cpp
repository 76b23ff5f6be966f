/// Regions of elementwise operators and maps, one launch each.

#include <algorithm>
#include <map>

#include "network/chains.hpp"
#include "network/cuda/tensor/operands.hpp"
#include "network/cuda/tensor/operators.hpp"
#include "tensors/map.hpp"

namespace unisono::network::gpu {

namespace {

using operators::Elementwise;
using operators::Map;

class ElementwiseRegion {
 public:
  ElementwiseRegion(const PlanningInput& in, const Region& r) : in_(in), r_(r) {}

  plan::Expected<TensorLaunches> launches() {
    for (const std::size_t i : r_.operators)
      if (!std::holds_alternative<Elementwise>(op(i).kind) && !std::holds_alternative<Map>(op(i).kind))
        return because("kernels that read and write f32 know elementwise operators alone");
    read_inputs();
    for (const std::size_t i : r_.operators) add_node(op(i));
    for (const RegionOutput& o : r_.outputs) {
      all_.push_back(TensorOperands::whole(in_, o.tensor));
      program_.outputs.push_back({values_.at(o.tensor), all_.back().strided.type});
    }
    std::vector<tensors::StridedTensor> strided;
    for (const WholeTensor& t : all_) strided.push_back(t.strided);
    return TensorOperands::over(tensors::map(program_, strided), all_);
  }

 private:
  const Operator& op(std::size_t i) const { return in_.net().operators[i]; }

  bool is_made_here(TensorId id) const {
    return std::ranges::any_of(r_.operators, [&](std::size_t i) { return op(i).output == id; });
  }

  // Values are counted: inputs first, then operators
  void read_inputs() {
    for (const std::size_t i : r_.operators)
      for (const TensorId id : op(i).inputs) {
        if (is_made_here(id) || !values_.emplace(id, values_.size()).second) continue;
        all_.push_back(TensorOperands::exact(in_, id));
        program_.inputs.push_back(all_.back().strided.type);
      }
  }

  void add_node(const Operator& o) {
    tensors::MapNode node{};
    if (const auto* map = std::get_if<Map>(&o.kind)) {
      node.op = *map;
    } else {
      node.op = std::get<Elementwise>(o.kind);
    }
    for (const TensorId id : o.inputs) node.operands.push_back(values_.at(id));
    program_.nodes.push_back(std::move(node));
    values_.emplace(o.output, values_.size());
  }

  const PlanningInput& in_;
  const Region& r_;
  tensors::MapProgram program_;
  std::vector<WholeTensor> all_;
  std::map<TensorId, std::size_t> values_;
};

// The tensors that a chain reads, and its results
plan::Expected<TensorLaunches> chain_launches(const PlanningInput& in, const Region& r) {
  std::vector<TensorId> results;
  for (const RegionOutput& o : r.outputs) results.push_back(o.tensor);
  auto chain = chain_of(in.net(), r.operators, results);
  if (!chain) return chain.refusal();
  chain->program.most_lines *= 2;  // it was chosen for dense tensors; of others more words are read
  std::vector<WholeTensor> all;
  for (const TensorId id : chain->inputs) all.push_back(TensorOperands::exact(in, id));
  for (const TensorId id : results) all.push_back(TensorOperands::whole(in, id));
  std::vector<tensors::StridedTensor> strided;
  for (const WholeTensor& t : all) strided.push_back(t.strided);
  return TensorOperands::over(tensors::chain(chain->program, strided), all);
}

}  // namespace

plan::Expected<TensorLaunches> tensor_launches(const PlanningInput& in, const Region& r) {
  if (r.chain) return chain_launches(in, r);
  return ElementwiseRegion(in, r).launches();
}

}  // namespace unisono::network::gpu
