#include "products/space.hpp"

#include <set>
#include <utility>

#include "products/attention.hpp"
#include "products/filter_gradient.hpp"
#include "products/matrix_product.hpp"
#include "products/norm_gradient.hpp"
#include "products/sm90_attention.hpp"
#include "products/sm90_filter_gradient.hpp"

namespace unisono::products {

std::vector<Kernel> every_kernel(const plan::Device& device) {
  std::vector<Kernel> all;
  std::set<std::string> seen;
  const auto add = [&](Kernel kernel) {
    if (seen.insert(kernel.source).second) all.push_back(std::move(kernel));
  };
  if (refuse_device(device)) return all;
  for (AttentionProblem& problem : attention_space(device)) add(attention(problem, device));
  for (const AttentionProblem& problem : sm90_attention_space())
    if (const auto tiles = sm90_attention_tiles(problem, device)) add(sm90_attention(problem, *tiles).kernel);
  for (MatrixProduct& product : matrix_product_space()) add(matrix_product(product));
  for (FilterGradientProblem& problem : filter_gradient_space()) {
    FilterGradientKernels made = filter_gradient(problem, filter_gradient_plans(problem, device).front(), device);
    add(std::move(made.sums));
    if (made.addition) add(*std::move(made.addition));
    if (refuse_sm90_filter_gradient(problem, device)) continue;
    for (const Sm90FilterGradientPlan& plan : sm90_filter_gradient_space()) {
      Sm90FilterGradientKernels fast = sm90_filter_gradient(problem, plan, device);
      add(std::move(fast.sums)), add(*std::move(fast.addition));
    }
  }
  for (NormGradientProblem& problem : norm_gradient_space()) {
    NormGradientKernels made = norm_gradient(problem, device);
    for (Kernel* k : {&made.sums, &made.factors, &made.input}) add(std::move(*k));
    add(norm_gradient_of_vector(problem.extents.channels, problem.y));
  }
  return all;
}

}  // namespace unisono::products
