#include "gpu/network_problem.hpp"

#include <cstdlib>
#include <limits>

#include "gpu/device.hpp"
#include "network/cuda/run/plan.hpp"
#include "reference/network/answer.hpp"
#include "support/random.hpp"

namespace unisono::gpu {
namespace {

float64::Tensors64 in_float64(const HostTensors& tensors) {
  float64::Tensors64 all;
  for (const auto& [name, t] : tensors)
    all[name] = {t.shape, {t.data.begin(), t.data.end()}, std::vector<double>(t.data.size(), 0.0)};
  return all;
}

}  // namespace

NetworkOptions on_gpu(DType precision) {
  NetworkOptions o;
  o.device = Device::cuda;
  o.device_index = device().index;
  o.precision = precision;
  return o;
}

HostTensors random_inputs(const Shapes& shapes, std::uint64_t seed) {
  test::Random random(seed);
  HostTensors tensors;
  for (const auto& [name, shape] : shapes) {
    HostTensor& t = tensors[name];
    t.shape = shape;
    t.data.resize(static_cast<std::size_t>(element_count(shape)));
    for (float& x : t.data) x = static_cast<float>(random.uniform(-1, 1));
  }
  return tensors;
}

HostTensors outputs_for(const NetworkExecutable& network, const HostTensors& inputs) {
  Shapes shapes;
  for (const auto& [name, t] : inputs) shapes[name] = t.shape;
  HostTensors outputs;
  for (const auto& [name, shape] : network.output_shapes(shapes)) {
    outputs[name].shape = shape;
    outputs[name].data.assign(static_cast<std::size_t>(element_count(shape)), std::numeric_limits<float>::quiet_NaN());
  }
  return outputs;
}

HostTensors run(const NetworkExecutable& network, const HostTensors& inputs) {
  HostTensors outputs = outputs_for(network, inputs);
  network.run(views<ConstTensorView>(inputs), views<TensorView>(outputs));
  return outputs;
}

void expect_agreement(const NetworkExecutable& executable, const NetworkOptions& options, const HostTensors& inputs,
                      const HostTensors& outputs) {
  const Network& network = executable.network();
  const auto agreements = float64::check_network(network, in_float64(inputs), in_float64(outputs), {},
                                                 float64::rounding_of(executable, options));
  EXPECT_EQ(agreements.size(), network.outputs.size());
  for (const auto& a : agreements) {
    std::printf("%s '%s': largest error %.2e, tolerance %.2e, largest value %.2e\n", network.name.c_str(),
                a.output.c_str(), a.largest_error, a.tolerance, a.largest_value);
    EXPECT_TRUE(a.ok()) << a.outside << " of " << a.elements << " elements of " << a.output << " are off";
    EXPECT_LT(a.tolerance, 0.5 * a.largest_value) << "a tolerance that nothing exceeds proves nothing";
  }
}

namespace {

// The inputs of given_filters()
Shapes given_shapes(std::int64_t batch, std::int64_t height, std::int64_t width) {
  return {{"x", {batch, 12, height, width}},
          {"wide", {batch, 32, height, width}},
          {"colours", {batch, 3, 2 * height + 1, 2 * width}},
          {"rows", {batch, 24}},
          {"odd rows", {batch, 13}},
          {"scale", {1}},
          {"bias", {16}},
          {"as it lies", {16, 12, 3, 3}},
          {"few", {5, 12, 3, 3}},
          {"not 0 between", {16, 12, 1, 1}},
          {"groups", {32, 8, 3, 3}},
          {"depthwise", {32, 1, 5, 5}},
          {"transposed", {12, 7, 3, 3}},
          {"upsampled", {16, 32, 3, 3}},
          {"stem", {16, 3, 7, 5}},
          {"columns", {24, 16}},
          {"odd columns", {24, 13}},
          {"odd matrix", {13, 16}},
          {"normalised", {24, 12, 3, 3}}};
}

}  // namespace

const std::vector<NetworkCase>& network_cases() {
  static const std::vector<NetworkCase> cases{
      {"small U-Net", [] { return heatmap_unet(small_unet); }, {{"image", {2, 3, 16, 24}}}},
      {"small block", [] { return residual_block(16, 4, 24); }, {{"x", {2, 16, 8, 8}}, {"time", {2, 24}}}},
      {"oddities", oddities, {{"x", {2, 8, 8, 12}}}},
      {"classifier", [] { return classifier(24, 10); }, {{"x", {3, 24, 5, 7}}}},
      {"U-Net in f16", [] { return heatmap_unet(small_unet); }, {{"image", {2, 3, 32, 48}}}, DType::f16},
      {"U-Net of four levels",
       [] {
         return heatmap_unet({.inputs = 8, .classes = 17, .channels = {64, 128, 256, 512}});
       },
       {{"image", {2, 8, 64, 64}}}},
      {"block of 320 channels",
       [] { return residual_block(320, 32, 1280); },
       {{"x", {2, 320, 32, 32}}, {"time", {2, 1280}}}},
      {"normalisations", normalisations, {{"wide", {2, 2100, 3, 5}}, {"image", {2, 37, 9, 13}}}},
      {"normalisations of larger images", normalisations, {{"wide", {1, 2100, 1, 1}}, {"image", {1, 37, 61, 67}}}},
      {"stems", stems, {{"x", {2, 3, 17, 37}}, {"z", {2, 8, 9, 13}}, {"odd", {2, 5, 11, 45}}}},
      {"pools and upsamplings", resampling, {{"x", {2, 16, 18, 44}}}},
      {"upsampled images", upsampled_images, {{"x", {2, 16, 5, 7}}, {"time", {2, 24}}, {"r", {2, 24, 10, 14}}}},
      {"upsampled images in f16",
       upsampled_images,
       {{"x", {1, 16, 9, 6}}, {"time", {1, 24}}, {"r", {1, 24, 18, 12}}},
       DType::f16},
      {"an upsampled image of 640 channels", [] { return upsampled_image(640); }, {{"x", {2, 640, 32, 32}}}},
      {"two upsampled pixels of 1280 channels", [] { return upsampled_image(1280); }, {{"x", {1, 1280, 1, 2}}}},
      {"embeddings", embeddings, {{"x", {3, 16, 6, 10}}, {"time", {3, 24}}}},
      {"embeddings in f16", embeddings, {{"x", {1, 16, 9, 5}}, {"time", {1, 24}}}, DType::f16},
      {"normalisations of concatenations", joined_normalisations, {{"x", {2, 16, 14, 22}}}},
      {"normalisations of concatenations in f16", joined_normalisations, {{"x", {3, 16, 34, 18}}}, DType::f16},
      {"inverted bottlenecks", inverted_bottlenecks, {{"x", {2, 16, 14, 22}}}},
      {"inverted bottlenecks in f16", inverted_bottlenecks, {{"x", {3, 16, 56, 40}}}, DType::f16},
      {"exported normalisations", exported_normalisations, {{"x", {2, 16, 9, 11}}, {"pixels", {1, 40, 1, 1}}}},
      {"dense layers", dense_layers, {{"x", {2, 16, 10, 14}}}},
      {"dense layers in f16", dense_layers, {{"x", {3, 16, 34, 46}}}, DType::f16},
      {"grouped bottlenecks", grouped_bottlenecks, {{"x", {2, 16, 14, 22}}}},
      {"grouped bottlenecks in f16", grouped_bottlenecks, {{"x", {3, 16, 30, 26}}}, DType::f16},
      {"packed attention", [] { return packed_attention(37, 3, 24); }, {{"x", {2, 37, 16}}}},
      {"packed attention in f16", [] { return packed_attention(197, 2, 64); }, {{"x", {1, 197, 16}}}, DType::f16},
      {"masked attention", masked_attention, {{"x", {2, 21, 24}}, {"mask", {2, 1, 1, 21}}}},
      {"cross attention", cross_attention, {{"x", {2, 7, 24}}, {"text", {2, 77, 24}}}},
      {"cross attention of many rows", cross_attention, {{"x", {2, 1025, 24}}, {"text", {2, 77, 24}}}},
      {"products of tensors",
       products_of_tensors,
       {{"x", {2, 5, 13, 9}}, {"z", {5, 9, 70}}, {"rows", {2, 130, 40}}, {"other", {2, 66, 40}}}},
      {"attention of wide heads", [] { return packed_attention(65, 1, 160); }, {{"x", {3, 65, 16}}}},
      {"attention of one row", [] { return packed_attention(1, 16, 8); }, {{"x", {1, 1, 16}}}},
      {"attention of 131 rows", [] { return packed_attention(131, 2, 40); }, {{"x", {2, 131, 16}}}},
      {"attention of 150 rows, 80 wide", [] { return packed_attention(150, 1, 80); }, {{"x", {1, 150, 16}}}},
      {"attention of 140 rows, 136 wide",
       [] { return packed_attention(140, 1, 136); },
       {{"x", {1, 140, 16}}},
       DType::f16},
      {"attention of shared keys", shared_keys, {{"x", {2, 67, 24}}, {"text", {2, 133, 24}}}},
      {"attention of repeated keys", repeated_keys, {{"x", {2, 70, 24}}, {"text", {2, 1, 24}}}},
      {"attention of 512 columns", [] { return packed_attention(70, 1, 512); }, {{"x", {2, 70, 16}}}},
      {"attention of 300 columns in f16",
       [] { return packed_attention(21, 1, 300); },
       {{"x", {1, 21, 16}}},
       DType::f16},
      {"gradients of images",
       gradients_of_images,
       {{"g", {2, 16, 9, 12}},
        {"plain", {16, 24, 3, 3}},
        {"odd", {16, 11, 3, 5}},
        {"strided", {16, 8, 3, 3}},
        {"dilated", {16, 8, 3, 3}},
        {"computed", {16, 32, 1, 1}}}},
      {"filter gradients", [] { return filter_gradients(false); }, filter_gradient_shapes()},
      {"filter gradients in f16", [] { return filter_gradients(false); }, filter_gradient_shapes(), DType::f16},
      {"filter gradients that are read", [] { return filter_gradients(true); }, filter_gradient_shapes()},
      {"gated units", gated_units, {{"x", {2, 37, 40}}}},
      {"gated units in f16", gated_units, {{"x", {1, 150, 40}}}, DType::f16},
      {"gated convolutions",
       gated_convolutions,
       {{"x", {2, 16, 13, 18}}, {"row", {2, 16, 40}}, {"deep", {2, 2048, 4, 4}}}},
      {"gated convolutions in f16",
       gated_convolutions,
       {{"x", {1, 16, 13, 18}}, {"row", {1, 16, 40}}, {"deep", {1, 2048, 4, 4}}},
       DType::f16},
      {"losses", losses, {{"x", {37, 40}}, {"t", {37, 24}}, {"s", {37, 1}}}},
      {"losses in f16", losses, {{"x", {200, 40}}, {"t", {200, 24}}, {"s", {200, 1}}}, DType::f16},
      {"pooled convolutions", pooled_convolutions, {{"x", {3, 16, 9, 13}}}},
      {"pooled convolutions in f16", pooled_convolutions, {{"x", {2, 16, 20, 18}}}, DType::f16},
      {"squeeze and excitation", squeeze_excitations, {{"x", {3, 16, 9, 13}}, {"z", {3, 2100, 3, 3}}}},
      {"squeeze and excitation in f16",
       squeeze_excitations,
       {{"x", {1, 16, 2, 3}}, {"z", {1, 2100, 3, 3}}},
       DType::f16},
      {"volumes", volumes, {{"x", {2, 16, 5, 9, 7}}, {"odd", {2, 3, 6, 7, 11}}}},
      {"volumes in f16", volumes, {{"x", {1, 16, 5, 9, 7}}, {"odd", {1, 3, 6, 7, 11}}}, DType::f16},
      {"a block of volumes", [] { return volume_block(64, 1, 6); }, {{"x", {2, 64, 6, 12, 20}}}},
      {"a strided block of volumes", [] { return volume_block(128, 2, 10); }, {{"x", {2, 128, 10, 12, 20}}}},
      {"a streamed block of volumes", [] { return volume_block(8, 1, 300); }, {{"x", {2, 8, 300, 12, 20}}}},
      {"attention of 24 narrow heads", [] { return packed_attention(130, 8, 20); }, {{"x", {3, 130, 16}}}},
      {"attention of 136 narrow heads", [] { return packed_attention(130, 8, 20); }, {{"x", {17, 130, 16}}}},
      {"rotated heads", [] { return rotated_heads(9, 3, 32); }, {{"x", {2, 9, 16}}}},
      {"rotated heads in f16", [] { return rotated_heads(7, 1, 20); }, {{"x", {2, 7, 16}}}, DType::f16},
      {"rotated heads of 6 columns", [] { return rotated_heads(4, 2, 6); }, {{"x", {2, 4, 16}}}},
      {"normalised lines", [] { return normalised_lines(9, 3, 32); }, {{"x", {2, 9, 16}}}},
      {"normalised lines in f16", [] { return normalised_lines(7, 2, 36); }, {{"x", {2, 7, 16}}}, DType::f16},
      {"normalised lines of 304 columns", [] { return normalised_lines(5, 1, 304); }, {{"x", {2, 5, 16}}}},
      {"windows and residuals",
       [] { return windows_and_residuals(48); },
       {{"x", {2, 12, 16}}, {"heads", {2, 1100, 4}}}},
      {"windows and residuals in f16",
       [] { return windows_and_residuals(20); },
       {{"x", {2, 12, 16}}, {"heads", {2, 1100, 4}}},
       DType::f16},
      {"given filters", given_filters, given_shapes(2, 9, 14)},
      {"given filters in f16", given_filters, given_shapes(3, 16, 24), DType::f16}};
  return cases;
}

std::vector<jit::Request> network_requests() {
  std::vector<jit::Request> all;
  for (const NetworkCase& c : network_cases()) {
    NetworkOptions options;
    options.device = Device::cuda;
    options.precision = c.precision;
    for (jit::Request& r : network::gpu::requests(c.make(), options, c.shapes, {})) all.push_back(std::move(r));
  }
  return all;
}

}  // namespace unisono::gpu
