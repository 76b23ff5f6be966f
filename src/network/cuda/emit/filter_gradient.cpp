/// Gradients of filters by the tensor cores.

#include "products/filter_gradient.hpp"
#include "network/cuda/emit/emission.hpp"
#include "network/cuda/emit/product_launches.hpp"
#include "products/sm90_filter_gradient.hpp"

namespace unisono::network::gpu {

namespace {

// x (N,C,H,W), g (N,K,P,Q) → y (K,C/groups,R,S), channels last in memory
products::FilterGradientProblem problem_of(const RegionEmission& e) {
  const auto& f = std::get<operators::FilterGradient>(e.op->kind);
  const Sizes &x = e.sizes(e.input(0)), &g = e.sizes(e.input(1)), &y = e.sizes(e.output());
  const PitchedTensor image = e.tensor(e.input(0)), gradient = e.tensor(e.input(1)), result = e.in.tensor(e.output());
  products::FilterGradientProblem problem{.taps = y[2] * y[3],
                                          .x_first = static_cast<std::int64_t>(image.at.offset % 16),
                                          .g_first = static_cast<std::int64_t>(gradient.at.offset % 16),
                                          .element = e.in.element,
                                          .f32 = result.type == DType::f32};
  problem.result_first = static_cast<std::int64_t>(result.at.offset % 16);
  FilterGradientParams& p = problem.extents;
  p.x_pixel = image.pitch, p.g_pixel = gradient.pitch;
  p.result_tap = result.pitch, p.result_filter = problem.taps * result.pitch;
  p.height = e.place32("image rows", x[2]), p.width = e.place32("an image row's pixels", x[3]);
  p.out_height = e.place32("image rows", g[2]), p.out_width = e.place32("an image row's pixels", g[3]);
  p.pixels = e.place32("pixels", g[0] * g[2] * g[3]);
  p.groups = e.place32("groups", f.groups);
  p.filters = e.place32("filters", y[0] / f.groups), p.channels = e.place32("channels", y[1]);
  p.taps_w = e.place32("taps", y[3]);
  p.stride_h = e.place32("a stride", f.stride.h), p.stride_w = e.place32("a stride", f.stride.w);
  p.pad_h = e.place32("padding", f.pad.top), p.pad_w = e.place32("padding", f.pad.left);
  e.place32("padding", f.pad.bottom), e.place32("padding", f.pad.right);
  p.dilation_h = e.place32("a dilation", f.dilation.h), p.dilation_w = e.place32("a dilation", f.dilation.w);
  return problem;
}

// Where a gradient's operands and its result lie
struct Operands {
  PlacedMatrix image, gradient, filter;
  ProductWork work;
  double sums;
};
Operands operands_of(const RegionEmission& e, const FilterGradientParams& p) {
  const TensorId x = e.input(0), g = e.input(1), y = e.output();
  const PitchedTensor result = e.in.tensor(y);
  const auto sums = static_cast<double>(element_count(e.sizes(y)));
  return {{e.tensor(x).at, 0, e.all_of(x)},
          {e.tensor(g).at, 0, e.all_of(g)},
          {result.at, 0, all_of(result, e.sizes(y))},
          {2 * static_cast<double>(p.pixels) * sums,
           static_cast<double>(element_count(e.sizes(x)) + element_count(e.sizes(g))) + sums},
          sums};
}

PlacedMatrix place_of_parts(RegionEmission& e, std::int64_t bytes, std::int64_t pitch) {
  const PlacedTensor scratch = floats_in_scratch(e, bytes, pitch);
  return {scratch.tensor.at, 0, scratch.memory};
}

void emit_by_warps(RegionEmission& e, products::FilterGradientProblem problem,
                   const products::FilterGradientPlan& plan) {
  const products::FilterGradientKernels kernels = products::filter_gradient(problem, plan, e.in.device);
  const FilterGradientParams& p = problem.extents;
  const auto [image, gradient, filter, work, sums] = operands_of(e, p);
  if (!kernels.addition) {
    add_launch(e, kernels.sums, p, work, {image, gradient, filter},
               [](FilterGradientParams& q, const auto& at) { q.x = at(0), q.g = at(1), q.result = at(2); });
    return;
  }
  const PlacedMatrix partials = place_of_parts(e, kernels.partial_bytes, p.columns);
  add_launch(e, kernels.sums, p, work, {image, gradient, partials},
             [](FilterGradientParams& q, const auto& at) { q.x = at(0), q.g = at(1), q.partials = at(2); });
  add_launch(e, *kernels.addition, p, ProductWork{0, sums}, {partials, filter},
             [](FilterGradientParams& q, const auto& at) { q.partials = at(0), q.result = at(1); });
}

void emit_by_warpgroups(RegionEmission& e, const products::FilterGradientProblem& problem,
                        const products::Sm90FilterGradientPlan& plan) {
  const auto kernels = products::sm90_filter_gradient(problem, plan, e.in.device);
  const auto [image, gradient, filter, work, sums] = operands_of(e, problem.extents);
  const std::size_t result = kernels.addition ? 3 : 2;  // among what is placed: whole tiles beside parts, perhaps
  std::vector<PlacedMatrix> placed{image, gradient};
  if (kernels.addition) placed.push_back(place_of_parts(e, kernels.partial_bytes, problem.extents.tap_columns));
  if (!kernels.addition || plan.whole > 0) placed.push_back(filter);
  const auto fill = [=, fixed = kernels.parameters, whole = placed.size() > result](const auto& at) {
    Sm90FilterGradientParams q = fixed;
    if (result == 3) q.partials = static_cast<float*>(at(2));
    if (whole) q.result = at(result);
    return q;
  };
  const auto parameter = [fill, element = problem.element, x = kernels.image.as<families::MapShape>(),
                          g = kernels.gradient.as<families::MapShape>()](const auto& at) {
    PlainParameter made(bytes_of(fill(at)));
    made.maps = {{offsetof(Sm90FilterGradientParams, image), x, at(0), element, "the image"},
                 {offsetof(Sm90FilterGradientParams, gradient), g, at(1), element, "the gradient"}};
    return made;
  };
  add_launch_of<Sm90FilterGradientParams>(e, kernels.sums, work, placed, parameter, placed.size() - 2);
  if (!kernels.addition) return;
  add_launch(
      e, *kernels.addition, kernels.parameters, ProductWork{0, sums}, {placed[2], filter},
      [](Sm90FilterGradientParams& q, const auto& at) { q.partials = static_cast<float*>(at(0)), q.result = at(1); });
}

}  // namespace

void emit_filter_gradient(RegionEmission& e) {
  products::FilterGradientProblem problem = problem_of(e);
  const products::FilterGradientPlan plan = products::filter_gradient_plans(problem, e.in.device).front();
  if (!products::refuse_sm90_filter_gradient(problem, e.in.device)) {
    const auto fast = products::sm90_filter_gradient_plans(problem, e.in.device).front();
    if (fast.clocks < plan.clocks) return emit_by_warpgroups(e, problem, fast);
  }
  emit_by_warps(e, problem, plan);
}

}  // namespace unisono::network::gpu
