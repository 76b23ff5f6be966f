// Eight neighbouring channels of a pixel.
#pragma once
#include "unisono/epilogue/visitor.cuh"
#include "unisono/params/plain_params.cuh"

namespace unisono::plain {

struct Octet {
  float of[8];
};

template <class Element>
UNISONO_DEVICE Octet load_octet(const PlainTensor& tensor, u64 row, u32 channel) {
  const auto octet = TensorSource<Element>{tensor.memory}.octet(row * tensor.pitch + channel);
  Octet x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = octet.pair(i);
    x.of[2 * i] = pair.x, x.of[2 * i + 1] = pair.y;
  }
  return x;
}

template <class Element>
UNISONO_DEVICE void store_octet(const PlainTensor& tensor, u64 row, u32 channel, const Octet& x) {
  u16* at = static_cast<u16*>(const_cast<void*>(tensor.memory)) + row * tensor.pitch + channel;
  *reinterpret_cast<uint4*>(at) = {Element::pack(x.of[0], x.of[1]), Element::pack(x.of[2], x.of[3]),
                                   Element::pack(x.of[4], x.of[5]), Element::pack(x.of[6], x.of[7])};
}

template <>
UNISONO_DEVICE void store_octet<float>(const PlainTensor& tensor, u64 row, u32 channel, const Octet& x) {
  float* at = static_cast<float*>(const_cast<void*>(tensor.memory)) + row * tensor.pitch + channel;
  reinterpret_cast<float4*>(at)[0] = {x.of[0], x.of[1], x.of[2], x.of[3]};
  reinterpret_cast<float4*>(at)[1] = {x.of[4], x.of[5], x.of[6], x.of[7]};
}

}  // namespace unisono::plain
