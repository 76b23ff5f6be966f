/// Contractions that no kernel of the tensor cores serves: a tensor kernel, float sums of elements in 16 bits.

#include <fmt/format.h>

#include <utility>

#include "network/cuda/decide/upsampled_images.hpp"
#include "network/cuda/emit/emission.hpp"
#include "network/cuda/tensor/operators.hpp"
#include "tensors/windows.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

// A convolution of volumes that computes the contraction, and its tensors
struct Volumes {
  operators::Conv3d op{.stride = {1, 1, 1},
                       .dilation = {1, 1, 1},
                       .before = {0, 0, 0},
                       .after = {},
                       .output_pad = {},
                       .groups = 1,
                       .transposed = false};
  WholeTensor image, filter, sums;
};

// The image as it is, or upsampled by a launch of its own
PitchedTensor emit_direct_image(RegionEmission& e) {
  const auto im2col = e.plan.im2col_inputs.find(e.input());
  if (im2col != e.plan.im2col_inputs.end()) {  // for which there is no kernel after all
    RegionEmission border(e.in, e.plan, e.launches, e.index);
    emit_border(border, {e.input(), im2col->second, BorderTensor::Way::input});
  }
  return upsamples(*e.op) ? emit_upsampled_image(e) : e.tensor(e.input());
}

// An image, or a filter, as a volume of one plane
WholeTensor volume(const PitchedTensor& tensor, const Sizes& sizes) {
  WholeTensor whole = whole_tensor(tensor, sizes, DType::f32);
  for (auto* list : {&whole.strided.shape, &whole.strided.strides}) list->insert(list->begin() + 2, 1);
  return whole;
}

// A matrix as one whose rows are volumes of one pixel
WholeTensor volume_of_rows(const PitchedTensor& tensor, std::int64_t rows, std::int64_t columns, bool transposed) {
  WholeTensor whole = whole_tensor(tensor, transposed ? Sizes{columns, rows} : Sizes{rows, columns}, DType::f32);
  auto &shape = whole.strided.shape, &strides = whole.strided.strides;
  if (transposed) std::swap(shape[0], shape[1]), std::swap(strides[0], strides[1]);
  for (auto* list : {&shape, &strides}) list->resize(5, 1);
  return whole;
}

// An image, or a filter, whose planes lie one below the other, as a volume
WholeTensor unstacked(const PitchedTensor& tensor, const Sizes& sizes, std::int64_t planes) {
  WholeTensor whole = whole_tensor(tensor, sizes, DType::f32);
  auto &shape = whole.strided.shape, &strides = whole.strided.strides;
  shape[2] /= planes;
  strides.insert(strides.begin() + 2, shape[2] * strides[2]);
  shape.insert(shape.begin() + 2, planes);
  return whole;
}

// A constant filter, so that neighbouring outputs read neighbours
PitchedTensor turned(const RegionEmission& e, std::int64_t outputs) {
  return {e.in.constants.turned(e.input(1), outputs), outputs, e.in.element};
}

class ByVolumes {
 public:
  ByVolumes(RegionEmission& e, const PitchedTensor& sums) : e_(e), sums_(sums) {}

  Volumes operator()(const Conv2d& c) {
    const PitchedTensor image = emit_direct_image(e_);
    Volumes v;
    set_windows(v.op, c);
    v.image = volume(image, image_sizes(e_.in, *e_.op, upsamples(*e_.op) ? Form::upsampled : Form::given));
    const std::int64_t channels = c.c / c.groups;
    if (e_.in.is_constant(e_.input(1))) {
      v.filter = whole_tensor(turned(e_, c.k), {c.r * c.s * channels, c.k}, DType::f32);
      v.filter.strided.shape = {c.k, channels, 1, c.r, c.s};
      v.filter.strided.strides = {1, c.k, 0, c.s * channels * c.k, channels * c.k};
    } else {
      v.filter = volume(e_.tensor(e_.input(1)), {c.k, channels, c.r, c.s});
    }
    const Extents space = extents(Contraction(c));
    v.sums = volume(sums_, {space.images, space.cols, space.height, space.width});
    return v;
  }
  Volumes operator()(const ConvTranspose2d& c) {
    Volumes v;
    set_windows(v.op, c), v.op.transposed = true;
    const Extents space = extents(Contraction(c));
    v.image = volume(e_.tensor(e_.input()), e_.sizes(e_.input()));
    v.filter = volume(e_.tensor(e_.input(1)), e_.sizes(e_.input(1)));
    v.sums = volume(sums_, {space.images, space.cols, space.height, space.width});
    return v;
  }
  Volumes operator()(const Gemm& g) {
    const bool is_turned = g.transpose_b && e_.in.is_constant(e_.input(1));
    return {.image = volume_of_rows(e_.tensor(e_.input()), g.m, g.k, g.transpose_a),
            .filter = volume_of_rows(is_turned ? turned(e_, g.n) : e_.tensor(e_.input(1)), g.n, g.k,
                                     is_turned || !g.transpose_b),
            .sums = volume_of_rows(sums_, g.m, g.n, false)};
  }
  Volumes operator()(const Conv3d& c) {
    const auto& stacked = std::get<operators::StackedConv3d>(e_.op->kind);
    const Extents space = extents(Contraction(c));
    return {.op = stacked.conv,
            .image = unstacked(e_.tensor(e_.input()), e_.sizes(e_.input()), stacked.planes),
            .filter = unstacked(e_.in.typed_tensor(e_.input(1)), e_.sizes(e_.input(1)), stacked.taps),
            .sums = unstacked(sums_, {space.images, space.cols, space.height, space.width}, output_planes(c))};
  }
  Volumes operator()(const auto&) { throw InternalError("a network has no such contraction"); }

 private:
  // Conv2d and ConvTranspose2d
  template <class C>
  static void set_windows(operators::Conv3d& op, const C& c) {
    op.stride = {1, c.stride[0], c.stride[1]}, op.dilation = {1, c.dilation[0], c.dilation[1]};
    op.before = {0, c.pad[0], c.pad[1]}, op.groups = c.groups;
  }

  RegionEmission& e_;
  const PitchedTensor& sums_;
};

}  // namespace

void emit_direct(RegionEmission& e, const PitchedTensor& sums, const Refusal& why) {
  const Volumes v = std::visit(ByVolumes(e, sums), e.in.contraction(*e.op));
  const Sizes& to = v.sums.strided.shape;
  auto launches = tensors::convolve(v.op, v.image.strided, v.filter.strided, nullptr, v.sums.strided,
                                    lanes_of(e.in.device, element_count(to), v.image.strided.shape[1] / v.op.groups));
  if (!launches) e.refuse(launches.refusal().first());
  emit_tensor_kernels(e, {*std::move(launches), {v.image.argument, v.filter.argument, v.sums.argument}},
                      describe(e.net(), *e.op));
  e.launches.last().how += ": " + why.first();
}

PitchedTensor emit_upsampled_image(RegionEmission& e) {
  const Sizes& x = e.sizes(e.input());
  PitchedTensor large = image_of(e.in, *e.op, Form::upsampled);
  large.at = e.launches.scratch(static_cast<std::size_t>(2 * x[0] * 4 * x[2] * x[3] * large.pitch));
  const auto made = resized({.scale_h = 2, .scale_w = 2}, whole_tensor(e.tensor(e.input()), x, DType::f32),
                            whole_tensor(large, image_sizes(e.in, *e.op, Form::upsampled), DType::f32));
  if (!made) e.refuse(made.refusal().first());
  emit_tensor_kernels(e, *made, "its image upsampled");
  return large;
}

}  // namespace unisono::network::gpu
