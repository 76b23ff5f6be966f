#include "families/sm90/fetchable.hpp"

#include <algorithm>
#include <iterator>

namespace unisono::families::sm90 {

std::vector<ValueId> fetchable_operands(const plan::Epilogue& e) {
  const auto of_16_bits = [&](const std::vector<ValueId>& all) {
    std::vector<ValueId> list;
    std::ranges::copy_if(all, std::back_inserter(list), [&](ValueId id) {
      const DType t = plan::storage_of(e, id);
      return (t == DType::bf16 || t == DType::f16) && !plan::is_placed(e.graph[id]);
    });
    return list;
  };
  const auto before = of_16_bits(e.ahead_of_stages().tensors);
  return e.ahead() && !before.empty() ? before : of_16_bits(e.reads.tensors);
}

}  // namespace unisono::families::sm90
