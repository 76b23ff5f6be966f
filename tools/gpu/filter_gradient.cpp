#include "gpu/filter_gradient.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "gpu/device.hpp"
#include "gpu/kernels.hpp"
#include "lower/request.hpp"

namespace unisono::gpu {

double clocks_of(const FilterGradientWay& way) {
  return std::visit([](const auto& plan) { return plan.clocks; }, way);
}

std::vector<FilterGradientWay> filter_gradient_ways(products::FilterGradientProblem& problem,
                                                    const plan::Device& device) {
  std::vector<FilterGradientWay> all;
  for (const auto& plan : products::filter_gradient_plans(problem, device)) all.emplace_back(plan);
  if (!products::refuse_sm90_filter_gradient(problem, device))
    for (const auto& plan : products::sm90_filter_gradient_plans(problem, device)) all.emplace_back(plan);
  std::ranges::stable_sort(all, {}, clocks_of);
  return all;
}

FilterGradientKernels::FilterGradientKernels(const products::FilterGradientProblem& problem,
                                             const FilterGradientWay& way, const plan::Device& device)
    : element_(problem.element) {
  const auto take = [&](auto made) {
    kernels_.push_back(std::move(made.sums));
    if (made.addition) kernels_.push_back(*std::move(made.addition));
    partial_bytes_ = made.partial_bytes;
  };
  if (const auto* plan = std::get_if<products::Sm90FilterGradientPlan>(&way)) {
    auto made = products::sm90_filter_gradient(problem, *plan, device);
    parameters_ = made.parameters, image_ = made.image, gradient_ = made.gradient;
    take(std::move(made));
  } else {
    products::FilterGradientProblem own = problem;
    take(products::filter_gradient(own, std::get<products::FilterGradientPlan>(way), device));
    parameters_ = own.extents;
  }
}

std::vector<jit::Request> FilterGradientKernels::requests(const plan::Device& device) const {
  std::vector<jit::Request> all;
  for (const products::Kernel& k : kernels_)
    all.push_back({.source = k.source,
                   .headers = lower::device_headers(),
                   .entry = k.entry,
                   .title = k.how,
                   .arch = device.arch()});
  return all;
}

void FilterGradientKernels::load() {
  const std::size_t bytes = std::visit([](const auto& p) { return sizeof p; }, parameters_);
  for (const jit::Request& request : requests(device().device))
    loaded_.push_back(cuda::load_plain(device().index, compiler().compile(request), request.entry, bytes));
}

template <class Parameters>
std::vector<Launch> FilterGradientKernels::bind_all(const Parameters& p,
                                                    std::vector<families::Parameter::Map> maps) const {
  std::vector<Launch> all;
  for (std::size_t i = 0; i < kernels_.size(); ++i, maps.clear())  // additions read no operands
    all.push_back(cuda::bind_plain(loaded_[i], {kernels_[i].ctas, kernels_[i].threads, kernels_[i].shared_bytes},
                                   std::as_bytes(std::span(&p, 1)), kernels_[i].how, maps));
  return all;
}

std::vector<Launch> FilterGradientKernels::bind(const FilterGradientMemory& memory) const {
  if (const auto* fixed = std::get_if<FilterGradientParams>(&parameters_)) {
    FilterGradientParams p = *fixed;
    p.x = memory.x, p.g = memory.g, p.result = memory.result, p.partials = memory.partials;
    return bind_all(p, {});
  }
  auto p = std::get<Sm90FilterGradientParams>(parameters_);
  p.result = memory.result, p.partials = static_cast<float*>(memory.partials);
  return bind_all(
      p, {{offsetof(Sm90FilterGradientParams, image), image_.as<families::MapShape>(), memory.x, element_, "the image"},
          {offsetof(Sm90FilterGradientParams, gradient), gradient_.as<families::MapShape>(), memory.g, element_,
           "the gradient"}});
}

}  // namespace unisono::gpu
