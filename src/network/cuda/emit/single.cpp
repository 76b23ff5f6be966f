/// Operators that run by themselves, by other kernels than those for tensors.

#include "network/cuda/emit/emission.hpp"
#include "network/space.hpp"

namespace unisono::network::gpu {

namespace {

// A CTA has a few octets of an image: as many as make as many CTAs as the GPU has SMs
void emit_pooled_images(RegionEmission& e) {
  const Sizes &x = e.sizes(e.input()), &y = e.sizes(e.output());
  const PitchedTensor from = e.tensor(e.input()), to = e.tensor(e.output());
  PoolImagesParams p{};
  p.from.pitch = from.pitch, p.to.pitch = to.pitch;
  p.images = count32(x[0]), p.pixels = count32(x[2] * x[3]), p.octets = count32((column_count(x) + 7) / 8);
  const auto chunks = [&](std::uint32_t width) { return (p.octets + width - 1) / width; };
  p.width = 64;
  while (p.width > 1 && (p.width / 2 >= p.octets || std::int64_t{p.images} * chunks(p.width) < e.in.device.sms))
    p.width /= 2;
  e.plain(codegen::PlainKernel::pool_images, std::int64_t{256} * p.images * chunks(p.width), p, {from.at, to.at},
          Touched{{all_of(from, x)}, {all_of(to, y)}}, {describe(e.net(), *e.op)},
          [from = from.at, to = to.at](PoolImagesParams& q, const Bases& bases) {
            q.from.memory = address(from, bases), q.to.memory = address(to, bases);
          });
}

}  // namespace

void emit_single(RegionEmission& e) {
  if (std::holds_alternative<operators::MatMul>(e.op->kind)) return emit_product(e);
  if (std::holds_alternative<operators::Attention>(e.op->kind)) return emit_attention(e);
  if (std::holds_alternative<operators::FilterGradient>(e.op->kind)) return emit_filter_gradient(e);
  if (std::holds_alternative<operators::NormGradient>(e.op->kind)) return emit_norm_gradient(e);
  emit_pooled_images(e);
}

}  // namespace unisono::network::gpu
