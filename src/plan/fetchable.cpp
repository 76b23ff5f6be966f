#include "plan/fetchable.hpp"

#include <algorithm>
#include <iterator>

namespace unisono::plan {

DType storage_of(const Epilogue& e, ValueId operand) {
  const Node& x = e.graph[operand];
  if (x.attr.storage) return *x.attr.storage;
  const auto bound = e.storage.find(x.attr.name);
  return bound == e.storage.end() ? DType::f32 : bound->second;
}

std::vector<ValueId> fetchable_operands(const Epilogue& e) {
  const auto of_16_bits = [&](const std::vector<ValueId>& all) {
    std::vector<ValueId> list;
    std::ranges::copy_if(all, std::back_inserter(list), [&](ValueId id) {
      const DType t = storage_of(e, id);
      return t == DType::bf16 || t == DType::f16;
    });
    return list;
  };
  const auto before = of_16_bits(e.tensors_before);
  return e.norm && !before.empty() ? before : of_16_bits(e.tensors_after);
}

}  // namespace unisono::plan
