/// Contractions that no kernel of the tensor cores serves: a plain kernel, one sum a thread.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "network/cuda/decide/upsampled_images.hpp"
#include "network/cuda/emit/emission.hpp"
#include "tensors/windows.hpp"

namespace unisono::network::gpu {

namespace {

// Conv2d and ConvTranspose2d
template <class C>
void describe_convolution(const RegionEmission& e, const C& c, const Extents& space, DirectParams& d) {
  d.images = count32(c.n), d.height = count32(c.h), d.width = count32(c.w);
  d.group_channels = count32(c.c / c.groups), d.group_outputs = count32(c.k / c.groups);
  d.taps_h = e.place32("filter taps", c.r), d.taps_w = e.place32("filter taps", c.s);
  d.stride_h = e.place32("stride", c.stride[0]), d.stride_w = e.place32("stride", c.stride[1]);
  d.pad_h = e.place32("pad", c.pad[0]), d.pad_w = e.place32("pad", c.pad[1]);
  d.dilation_h = e.place32("dilation", c.dilation[0]), d.dilation_w = e.place32("dilation", c.dilation[1]);
  e.place32("filter span", (c.r - 1) * c.dilation[0]), e.place32("filter span", (c.s - 1) * c.dilation[1]);
  e.place32("image height", std::max(c.h, space.height)), e.place32("image width", std::max(c.w, space.width));
}

void describe_product(const Gemm& g, DirectParams& d) {
  d.images = d.height = 1, d.width = count32(g.m);
  d.out_height = 1, d.out_width = count32(g.m);
  d.group_channels = count32(g.k), d.group_outputs = count32(g.n);
  d.taps_h = d.taps_w = d.stride_h = d.stride_w = d.dilation_h = d.dilation_w = 1;
  if (g.transpose_a) std::swap(d.from_pixel, d.from_channel);
}

// Threads of an output: more than one where there are too few outputs to fill the GPU, and four channels for each
std::uint32_t lanes_of(const plan::Device& device, std::int64_t outputs, std::int64_t channels) {
  std::uint32_t lanes = 1;
  while (lanes < 32 && 8 * std::int64_t{lanes} <= channels && 2 * lanes * outputs <= std::int64_t{2048} * device.sms)
    lanes *= 2;
  return lanes;
}

DirectParams parameters(const RegionEmission& e, const Contraction& problem, const PitchedTensor& image,
                        const PitchedTensor& sums) {
  const Extents space = extents(problem);
  DirectParams d{};
  d.from_pixel = image.pitch, d.from_channel = 1;
  d.to.pitch = sums.pitch;
  d.out_height = count32(space.height), d.out_width = count32(space.width), d.outputs = count32(space.cols);
  if (const auto* c = std::get_if<Conv2d>(&problem)) describe_convolution(e, *c, space, d);
  if (const auto* c = std::get_if<ConvTranspose2d>(&problem)) describe_convolution(e, *c, space, d), d.transposed = 1;
  if (const auto* g = std::get_if<Gemm>(&problem)) describe_product(*g, d);
  d.lanes = lanes_of(e.in.device, space.rows() * space.cols, d.group_channels);
  return d;
}

// Where the filter is; completes its strides
Location filter_of(const RegionEmission& e, const Contraction& problem, DirectParams& d) {
  const TensorId filter = e.input(1);
  if (e.in.is_constant(filter)) {
    d.filter_output = 1, d.filter_channel = d.outputs, d.filter_tap = i64{d.group_channels} * d.outputs;
    return e.in.constants.direct_filter(*e.op, problem);
  }
  const PitchedTensor b = e.tensor(filter);
  const auto* g = std::get_if<Gemm>(&problem);
  const bool rows = g == nullptr || g->transpose_b;  // a filter's channels lie together
  d.filter_tap = b.pitch, d.filter_output = rows ? i64{d.taps_h} * d.taps_w * b.pitch : 1;
  d.filter_channel = rows ? 1 : b.pitch;
  return b.at;
}

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

// The plain kernel reads constant filters of a transposed convolution alone
void emit_computed_filter(RegionEmission& e, const ConvTranspose2d& c, const PitchedTensor& sums) {
  const Extents space = extents(Contraction(c));
  const WholeTensor x = volume(e.tensor(e.input()), e.sizes(e.input())),
                    filter = volume(e.tensor(e.input(1)), e.sizes(e.input(1))),
                    to = volume(sums, {space.images, space.cols, space.height, space.width});
  const operators::Conv3d op{.stride = {1, c.stride[0], c.stride[1]},
                             .dilation = {1, c.dilation[0], c.dilation[1]},
                             .before = {0, c.pad[0], c.pad[1]},
                             .after = {},
                             .output_pad = {},
                             .groups = c.groups,
                             .transposed = true};
  auto launches = tensors::convolve(op, x.strided, filter.strided, nullptr, to.strided);
  if (!launches) e.refuse(launches.refusal().first());
  emit_tensor_kernels(e, {*std::move(launches), {x.argument, filter.argument, to.argument}}, describe(e.net(), *e.op));
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

// Volumes have a plain kernel of their own
void emit_volume(RegionEmission& e, const operators::StackedConv3d& c, const PitchedTensor& sums, const Refusal& why) {
  const auto problem = std::get<Conv3d>(e.in.contraction(*e.op));
  const Extents space = extents(problem);
  const WholeTensor x = unstacked(e.tensor(e.input()), e.sizes(e.input()), c.planes),
                    filter = unstacked(e.in.typed_tensor(e.input(1)), e.sizes(e.input(1)), c.taps),
                    to = unstacked(sums, {space.images, space.cols, space.height, space.width}, output_planes(problem));
  auto launches = tensors::convolve(c.conv, x.strided, filter.strided, nullptr, to.strided);
  if (!launches) e.refuse(launches.refusal().first());
  emit_tensor_kernels(e, {*std::move(launches), {x.argument, filter.argument, to.argument}}, describe(e.net(), *e.op));
  e.launches.last().how += ": " + why.first();
}

}  // namespace

void emit_direct(RegionEmission& e, const PitchedTensor& sums, const Refusal& why) {
  if (const auto given = e.in.contraction(*e.op); !e.in.is_constant(e.input(1)))
    if (const auto* c = std::get_if<ConvTranspose2d>(&given)) return emit_computed_filter(e, *c, sums);
  if (const auto* c = std::get_if<operators::StackedConv3d>(&e.op->kind)) return emit_volume(e, *c, sums, why);
  const PitchedTensor image = emit_direct_image(e);
  const Contraction problem = e.in.contraction(*e.op);
  const Extents space = extents(problem);
  DirectParams d = parameters(e, problem, image, sums);
  const Location filter = filter_of(e, problem, d);
  const Sizes image_extents = image_sizes(e.in, *e.op, upsamples(*e.op) ? Form::upsampled : Form::given);
  Touched touched{{all_of(image, image_extents)}, {all_of(sums, {space.rows(), space.cols})}};
  if (!e.in.is_constant(e.input(1))) touched.reads.push_back(e.all_of(e.input(1)));
  const std::string threads = d.lanes == 1 ? "a thread" : fmt::format("by {} threads", d.lanes);
  e.plain(codegen::PlainKernel::direct, space.rows() * space.cols * d.lanes, d, {image.at, filter}, touched,
          {describe(e.net(), *e.op), fmt::format("plain kernel, one sum {}: {}", threads, why.first())},
          [from = image.at, filter, to = sums.at](DirectParams& p, const Bases& bases) {
            p.from = address(from, bases), p.filter = address(filter, bases), p.to.memory = address(to, bases);
          });
}

PitchedTensor emit_upsampled_image(RegionEmission& e) {
  const Sizes& x = e.sizes(e.input());
  PitchedTensor large = image_of(e.in, *e.op, Form::upsampled);
  large.at = e.launches.scratch(static_cast<std::size_t>(2 * x[0] * 4 * x[2] * x[3] * large.pitch));
  emit_resize(e, operators::Resize{.scale_h = 2, .scale_w = 2}, x, image_sizes(e.in, *e.op, Form::upsampled),
              e.tensor(e.input()), large, "its image upsampled");
  return large;
}

}  // namespace unisono::network::gpu
