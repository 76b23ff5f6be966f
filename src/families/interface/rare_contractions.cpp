#include "families/interface/rare_contractions.hpp"

namespace unisono::families {

std::optional<plan::Refusal> refuse_rare(const plan::ConvTask& task) {
  if (task.gradient)
    return plan::Refusal{
        plan::Refusal::Scope::problem,
        {"contraction: a gradient of filters; CUTLASS's kernels compute it on sm_90: plan=family=cutlass_evt. Of one "
         "tap without stride and border it is the product of dY, transposed, and X, which all families compute"}};
  if (!task.group_rows.empty())
    return plan::Refusal{
        plan::Refusal::Scope::problem,
        {"contraction: a grouped product; CUTLASS's kernels compute it on sm_90: plan=family=cutlass_evt. Groups of as "
         "many rows are a batch, which all families multiply"}};
  return std::nullopt;
}

}  // namespace unisono::families
