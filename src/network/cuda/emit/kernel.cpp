/// Regions of one contraction as one kernel of a family.

#include <fmt/format.h>

#include "network/cuda/emit/emission.hpp"
#include "network/regions.hpp"

namespace unisono::network::gpu {

namespace {

class FamilyStep final : public Step {
 public:
  FamilyStep(const FamilyKernel& kernel, Argument image, Argument filter, std::vector<Argument> operands,
             std::vector<Argument> outputs)
      : lowered_(kernel.lowered),
        image_(std::move(image)),
        filter_(std::move(filter)),
        second_(kernel.second),
        operands_(std::move(operands)),
        outputs_(std::move(outputs)) {
    for (const Argument& x : operands_)
      if (x.at.constant) constants.push_back(x.at.constant);
    for (const Argument* x : {&image_, &filter_})
      if (x->at.constant) constants.push_back(x->at.constant);
    if (second_ && second_->at.constant) constants.push_back(second_->at.constant);
    use_memory();
  }

  std::optional<jit::Request> request() const override { return lowered_.request(); }
  void load(int device_index, jit::Binary binary) override {
    lowered_.problem.options.device_index = device_index;
    executable_.emplace(cuda::build(lowered_, std::move(binary)));
  }
  std::optional<lower::Problem> problem() const override {
    lower::Problem p = lowered_.problem;
    p.forms.list.front().moments = {};  // plans are measured, and found, as if no moments were stored,
    p.apart.clear();                    // with operands that are dense
    p.filters_ahead = false;            // and of filters that a launch may have written
    return p;
  }
  Launch bind(const Bases& bases) const override {
    Arguments arguments;
    arguments.a(lowered_.problem.contraction) = image_.view(bases);
    arguments.b(lowered_.problem.contraction) = filter_.view(bases);
    if (second_) arguments.right1 = second_->view(bases);
    for (const Argument& o : operands_) arguments.operands.emplace(o.name, o.view(bases));
    for (const Argument& o : outputs_) arguments.outputs.emplace(o.name, o.view(bases));
    return executable_->bind(arguments, {.memory = bases.workspace, .bytes = workspace_bytes(), .is_clear = true});
  }
  std::size_t workspace_bytes() const override { return lowered_.plan().workspace_bytes; }

 private:
  void use_memory() {
    const families::Plan& plan = lowered_.plan();
    uses = {.exchanges = plan.cooperative, .exclusive = plan.exclusive, .blocks = plan.ctas, .threads = plan.threads};
    uses.reads = {image_.memory(), filter_.memory()};
    if (second_) uses.reads.push_back(second_->memory());
    for (const Argument& x : operands_) uses.reads.push_back(x.memory());
    for (const Argument& x : outputs_) uses.writes.push_back(x.memory());
  }

  lower::Lowered lowered_;
  Argument image_, filter_;
  std::optional<Argument> second_;
  std::vector<Argument> operands_, outputs_;
  std::optional<Executable> executable_;
};

Location emit_padded_image(RegionEmission& e, const FamilyKernel& kernel) {
  Argument image = kernel.image;
  image.at = e.launches.scratch(static_cast<std::size_t>(image.bytes()));
  TensorLaunches padding = *kernel.padding;
  padding.arguments[1].at = image.at, padding.arguments[1].memory = image.memory();
  const TensorId id = e.input(0);
  emit_tensor_kernels(e, padding, fmt::format("pads '{}' {}", e.in.name(id), to_string(e.net()[id].shape)));
  return image.at;
}

// The image that a launch ahead of the kernel makes for it; else where it is
Location emit_image(RegionEmission& e, const FamilyKernel& kernel) {
  if (kernel.padding) return emit_padded_image(e, kernel);
  if (kernel.form == Form::upsampled) return emit_upsampled_image(e).at;
  if (kernel.im2col) return emit_im2col(e, std::get<Conv2d>(e.in.contraction(*e.op)), *kernel.im2col);
  return kernel.image.at;
}

void emit_kernel_of(RegionEmission& e, const FamilyKernel& kernel, const Location& image,
                    const std::map<std::string, Location>& placed);

// Where the kernel ahead, if there is one, leaves its sums of the same image
Location emit_ahead(RegionEmission& e, const FamilyKernel& kernel, const Location& image) {
  Location sums;
  for (const FamilyKernel& ahead : kernel.ahead) {
    const Argument& to = ahead.outputs[0];
    sums = e.launches.scratch(static_cast<std::size_t>(to.bytes()));
    emit_kernel_of(e, ahead, image, {{to.name, sums}});
  }
  return sums;
}

// The filter as the kernel reads it
Argument emit_filter(RegionEmission& e, const FamilyKernel& kernel) {
  Argument filter = kernel.filter;
  if (!kernel.packing) return filter;
  const auto bytes = static_cast<std::size_t>(filter.bytes());
  filter.at = e.launches.scratch(bytes);
  TensorLaunches packing = *kernel.packing;
  packing.arguments[1].at = filter.at, packing.arguments[1].memory = filter.memory();
  const TensorId id = e.input(1);
  emit_tensor_kernels(e, packing, fmt::format("packs '{}' {}", e.in.name(id), to_string(e.net()[id].shape)));
  return filter;
}

std::vector<Argument> place_operands(const RegionEmission& e, std::vector<Argument> operands) {
  for (Argument& o : operands)
    if (const auto at = e.gathered.find(o.name); at != e.gathered.end()) o.at = at->second.tensor.at;
  return operands;
}

std::vector<Argument> place_outputs(RegionEmission& e, const FamilyKernel& kernel,
                                    const std::map<std::string, Location>& placed) {
  std::vector<Argument> outputs = kernel.outputs;
  for (Argument& o : outputs)
    if (const auto at = placed.find(o.name); at != placed.end()) o.at = at->second;
  if (kernel.moments) {  // stored last
    outputs.back().at = e.launches.kept(static_cast<std::size_t>(kernel.moments->bytes));
    e.launches.moments[kernel.moments->tensor] = {*kernel.moments, outputs.back().at};
  }
  return outputs;
}

void emit_kernel_of(RegionEmission& e, const FamilyKernel& kernel, const Location& image_at,
                    const std::map<std::string, Location>& placed) {
  const Location sums = emit_ahead(e, kernel, image_at);
  Argument image = kernel.image, filter = emit_filter(e, kernel);
  image.at = image_at;
  std::vector<Argument> operands = place_operands(e, kernel.operands);
  for (Argument& o : operands)
    if (o.name == kernel.sums) o.at = sums;
  auto step = std::make_unique<FamilyStep>(kernel, std::move(image), std::move(filter), std::move(operands),
                                           place_outputs(e, kernel, placed));
  step->what = describe(e.net(), *e.op);
  step->how = kernel.how;
  step->flop = kernel.flop, step->bytes = kernel.bytes;
  step->predicted_us = kernel.lowered.plan().predicted_us;
  e.add(std::move(step));
}

}  // namespace

void emit_kernel(RegionEmission& e, const FamilyKernel& kernel, const std::map<std::string, Location>& placed) {
  emit_kernel_of(e, kernel, emit_image(e, kernel), placed);
}

}  // namespace unisono::network::gpu
