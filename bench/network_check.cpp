#include "network_check.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "gpu/kernels.hpp"
#include "support/float_convert.hpp"

namespace unisono::bench {

float64::Tensor64 download(const void* memory, DType type, const std::vector<std::int64_t>& shape) {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(element_count(shape)));
  cuda::check(cuda::driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(bits.data()), reinterpret_cast<CUdeviceptr>(memory),
                                      2 * bits.size()),
              "downloading a tensor");
  float64::Tensor64 x;
  x.dtype = type;
  x.shape = shape.size() == 4 ? std::vector<std::int64_t>{shape[0], shape[3], shape[1], shape[2]} : shape;
  x.value.resize(bits.size());
  x.bound.assign(bits.size(), 0.0);
  const auto channels = static_cast<std::size_t>(shape.size() == 4 ? shape[3] : 1);
  const auto pixels = static_cast<std::size_t>(shape.size() == 4 ? shape[1] * shape[2] : 1);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::size_t image = i / (channels * pixels), pixel = i / channels % pixels, channel = i % channels;
    x.value[(image * channels + channel) * pixels + pixel] =
        type == DType::bf16 ? support::bf16_to_float(bits[i]) : support::f16_to_float(bits[i]);
  }
  return x;
}

std::vector<float64::NetworkAgreement> verify(const NetworkExecutable& executable, const NetworkOptions& options,
                                              const std::map<std::string, ConstTensorView>& inputs,
                                              const std::map<std::string, TensorView>& outputs) {
  float64::Tensors64 from, to;
  for (const auto& [name, t] : inputs) from[name] = download(t.data, t.dtype, t.shape);
  for (const auto& [name, t] : outputs) to[name] = download(t.data, t.dtype, t.shape);
  const Network& network = executable.network();
  std::size_t done = 0;
  const auto progress = [&](const Operator&, float64::Tensor64&) {
    if (++done % 20 == 0)
      fmt::print(stderr, "verifying {}: {} operators of {}, several times\n", network.name, done,
                 network.operators.size());
  };
  return float64::check_network(network, from, to, progress, float64::rounding_of(executable, options));
}

}  // namespace unisono::bench
