// Gradients of a normalisation over groups of channels. With x^ = (x - mean) r and h = g scale, its input's is
// r (h - mean(h) - x^ mean(h x^)). All that has to be summed over an image is found in one pass, by channel: x, its
// squares, g and g x, where x is taken from the image's first pixel, so that little cancels.
#pragma once
#include "unisono/params/norm_gradient_params.cuh"
#include "unisono/plain/octet.cuh"
#include "unisono/tensor/number.cuh"
#include "unisono/tensor/team.cuh"

namespace unisono::product {

using plain::Octet;

// f32 has no padding after a pixel's channels, and may begin anywhere
template <class Element>
UNISONO_DEVICE Octet load_channels(const void* memory, i64 pitch, u64 row, u32 channel, u32) {
  return plain::load_octet<Element>(PlainTensor{memory, pitch}, row, channel);
}
template <>
UNISONO_DEVICE Octet load_channels<float>(const void* memory, i64 pitch, u64 row, u32 channel, u32 channels) {
  Octet x{};
  const float* const from = static_cast<const float*>(memory) + row * pitch + channel;
  for (u32 k = 0; k < 8; ++k)
    if (channel + k < channels) x.of[k] = __ldg(from + k);
  return x;
}
template <class Element>
UNISONO_DEVICE void store_channels(void* memory, i64 pitch, u64 row, u32 channel, u32, const Octet& x) {
  plain::store_octet<Element>(PlainTensor{memory, pitch}, row, channel, x);
}
template <>
UNISONO_DEVICE void store_channels<float>(void* memory, i64 pitch, u64 row, u32 channel, u32 channels, const Octet& x) {
  float* const to = static_cast<float*>(memory) + row * pitch + channel;
  for (u32 k = 0; k < 8; ++k)
    if (channel + k < channels) to[k] = x.of[k];
}

// What a thread has of a tile: an octet of every `lanes`-th pixel.
struct NormTile {
  u32 image, part, octet, lane, lanes;
  bool exists;

  UNISONO_DEVICE NormTile(const NormGradientParams& p, u32 number) {
    const u32 chunk = number % p.chunks, rest = number / p.chunks;
    image = rest / p.parts, part = rest - image * p.parts;
    lane = threadIdx.x / p.wide, lanes = kNormThreads / p.wide;
    octet = chunk * p.wide + threadIdx.x % p.wide;
    exists = octet < p.octets && lane < lanes;
  }
  // Calls visit(row) for each pixel.
  template <class Visit>
  UNISONO_DEVICE void for_rows(const NormGradientParams& p, const Visit& visit) const {
    const u32 begin = part * p.part_pixels, end = begin + p.part_pixels < p.pixels ? begin + p.part_pixels : p.pixels;
    if (!exists) return;
#pragma unroll 2
    for (u32 i = begin + lane; i < end; i += lanes) visit(u64(image) * p.pixels + i);
  }
};

UNISONO_DEVICE float4 added(const float4& a, const float4& b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

template <class X, class G>
UNISONO_DEVICE void norm_gradient_sums(const NormGradientParams& p) {
  __shared__ float4 sums[8][kNormThreads];
  for (u32 number = blockIdx.x; number < p.images * p.parts * p.chunks; number += gridDim.x) {
    const NormTile tile(p, number);
    const u32 channel = 8 * tile.octet;
    float4 own[8] = {};
    Octet first{};
    if (tile.exists) first = load_channels<X>(p.x, p.x_pitch, u64(tile.image) * p.pixels, channel, p.channels);
    tile.for_rows(p, [&](u64 row) {
      const Octet x = load_channels<X>(p.x, p.x_pitch, row, channel, p.channels),
                  g = load_channels<G>(p.g, p.g_pitch, row, channel, p.channels);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float from_first = x.of[k] - first.of[k];
        own[k].x += from_first, own[k].y += from_first * from_first;
        own[k].z += g.of[k], own[k].w += g.of[k] * from_first;
      }
    });
#pragma unroll
    for (int k = 0; k < 8; ++k) sums[k][threadIdx.x] = own[k];
    __syncthreads();
    for (u32 lanes = tile.lanes; lanes > 1;) {
      const u32 half = (lanes + 1) / 2;
      if (tile.exists && tile.lane + half < lanes)
        for (int k = 0; k < 8; ++k)
          sums[k][threadIdx.x] = added(sums[k][threadIdx.x], sums[k][threadIdx.x + half * p.wide]);
      lanes = half;
      __syncthreads();
    }
    if (tile.exists && tile.lane == 0) {
      float4* const to =
          static_cast<float4*>(p.partials) + (u64(tile.image) * p.parts + tile.part) * p.octets * 8 + channel;
      for (int k = 0; k < 8; ++k) to[k] = sums[k][threadIdx.x];
    }
    __syncthreads();
  }
}

struct FoldThree {
  struct State {
    double of[3];
  };
  static UNISONO_DEVICE void join(State& a, const State& b) {
    for (int i = 0; i < 3; ++i) a.of[i] += b.of[i];
  }
};

// The sums over a CTA's threads, the same in all of them.
UNISONO_DEVICE FoldThree::State sum_of_all(FoldThree::State own) {
  __shared__ FoldThree::State all;
  tensor::join_team<tensor::kTeamThreads, FoldThree>(own);
  if (threadIdx.x == 0) all = own;
  __syncthreads();
  const FoldThree::State result = all;
  __syncthreads();
  return result;
}

// A channel of an image, about its own mean.
struct NormChannel {
  float mean, squares, g, g_x;
};

// Threads of a warp that share the parts of a channel, a power of two: there are as few as two channels in a group.
UNISONO_DEVICE u32 lanes_of_channel(u32 width) {
  u32 lanes = 32;
  while (lanes > 1 && lanes * width > kNormThreads) lanes /= 2;
  return lanes;
}

struct NormSums {
  double x, squares, g, g_x;
};

// The sums of a channel over its image, in its first lane: each lane adds every `lanes`-th part. Whole warps call it.
UNISONO_DEVICE NormSums sums_of_channel(const NormGradientParams& p, u32 image, u32 channel, u32 lanes, bool exists) {
  __shared__ NormSums all[kNormThreads];
  NormSums own{};
  const float4* const from = static_cast<const float4*>(p.partials) + u64(image) * p.parts * p.octets * 8 + channel;
  const u32 lane = threadIdx.x % lanes;
#pragma unroll 4
  for (u32 part = lane; exists && part < p.parts; part += lanes) {
    const float4 s = from[u64(part) * p.octets * 8];
    own.x += s.x, own.squares += s.y, own.g += s.z, own.g_x += s.w;
  }
  for (u32 half = lanes / 2; half > 0; half /= 2) {
    all[threadIdx.x] = own;
    __syncwarp();
    if (lane < half) {
      const NormSums other = all[threadIdx.x + half];
      own.x += other.x, own.squares += other.squares, own.g += other.g, own.g_x += other.g_x;
    }
    __syncwarp();
  }
  return own;
}

template <class X>
UNISONO_DEVICE NormChannel channel_of(const NormGradientParams& p, const NormSums& sums, u32 image, u32 channel) {
  const u32 octet = channel / 8 * 8;
  const Octet first = load_channels<X>(p.x, p.x_pitch, u64(image) * p.pixels, octet, p.channels);
  float from_first = first.of[0];
  for (u32 k = 1; k < 8; ++k)
    if (channel == octet + k) from_first = first.of[k];
  const double mean = sums.x / p.pixels;
  return {float(from_first + mean), float(sums.squares - sums.x * mean), float(sums.g),
          float(sums.g_x - mean * sums.g)};
}

UNISONO_DEVICE float scale_at(const NormGradientParams& p, u32 channel) {
  if (p.scale == nullptr) return 1.f;
  if (p.scale_type == ElementCode::f32) return __ldg(static_cast<const float*>(p.scale) + channel);
  const u16 bits = __ldg(static_cast<const u16*>(p.scale) + channel);
  return p.scale_type == ElementCode::bf16 ? Bf16::unpack(bits).x : F16::unpack(bits).x;
}

// A CTA has a group of an image. Of each channel: the factors of g and of x - mean, what is added, and the mean.
template <class X>
UNISONO_DEVICE void norm_gradient_factors(const NormGradientParams& p) {
  __shared__ NormChannel channels[kNormGroupChannels];
  const u32 width = p.channels / p.groups, lanes = lanes_of_channel(width);
  const double count = double(width) * p.pixels;
  for (u32 number = blockIdx.x; number < p.images * p.groups; number += gridDim.x) {
    const u32 image = number / p.groups, first = (number - image * p.groups) * width;
    for (u32 i = threadIdx.x / lanes; i < (width + 31) / 32 * 32; i += kNormThreads / lanes) {
      const NormSums sums = sums_of_channel(p, image, first + i, lanes, i < width);
      if (i < width && threadIdx.x % lanes == 0) channels[i] = channel_of<X>(p, sums, image, first + i);
    }
    __syncthreads();
    FoldThree::State sum{};
    for (u32 i = threadIdx.x; i < width; i += kNormThreads) sum.of[0] += channels[i].mean;
    const double mean = sum_of_all(sum).of[0] / width;
    sum = {};
    for (u32 i = threadIdx.x; i < width; i += kNormThreads) {
      const NormChannel c = channels[i];
      const double off = c.mean - mean, scale = scale_at(p, first + i);
      sum.of[0] += c.squares + off * off * p.pixels;
      sum.of[1] += scale * c.g, sum.of[2] += scale * (c.g_x + off * c.g);
    }
    sum = sum_of_all(sum);
    const double r = 1 / sqrt(sum.of[0] / count + p.eps), mean_h = sum.of[1] / count,
                 mean_h_unit = sum.of[2] / count * r;
    for (u32 i = threadIdx.x; i < width; i += kNormThreads) {
      const NormChannel c = channels[i];
      const u64 at = u64(image) * p.octets * 8 + first + i, all = u64(p.images) * p.octets * 8;
      const double off = c.mean - mean, of_g = r * scale_at(p, first + i), of_x = -r * r * mean_h_unit,
                   rest = -r * mean_h;
      static_cast<float4*>(p.factors)[at] = {float(of_g), float(of_x), float(rest), float(mean)};
      p.vectors[at] = float(r * (c.g_x + off * c.g));
      p.vectors[all + at] = c.g;
      p.vectors[2 * all + at] = float(of_g * c.g + (of_x * off + rest) * p.pixels);
    }
    __syncthreads();
  }
}

// What all images add to a vector's element, in their order.
UNISONO_DEVICE float sum_over_images(const float* from, u32 images, u32 pitch) {
  float sum = 0;
  for (u32 image = 0; image < images; ++image) sum += from[u64(image) * pitch];
  return sum;
}

// The vectors that are wanted here, by the CTAs together.
UNISONO_DEVICE void sum_vectors(const NormGradientParams& p) {
  const u32 pitch = p.octets * 8;
  for (u32 i = u32(first_index()); i < kNormVectors * pitch; i += u32(index_step())) {
    const u32 which = i / pitch, channel = i - which * pitch;
    float* const to = p.results[which];
    if (to != nullptr && channel < p.channels)
      to[channel] = sum_over_images(p.vectors + u64(which) * p.images * pitch + channel, p.images, pitch);
  }
}

template <class X, class G, class Y>
UNISONO_DEVICE void norm_gradient_of_input(const NormGradientParams& p) {
  sum_vectors(p);
  for (u32 number = blockIdx.x; number < p.images * p.parts * p.chunks; number += gridDim.x) {
    const NormTile tile(p, number);
    const u32 channel = 8 * tile.octet;
    float4 factors[8] = {};
    for (u32 k = 0; k < 8; ++k)
      if (tile.exists && channel + k < p.channels)
        factors[k] = static_cast<const float4*>(p.factors)[u64(tile.image) * p.octets * 8 + channel + k];
    tile.for_rows(p, [&](u64 row) {
      const Octet x = load_channels<X>(p.x, p.x_pitch, row, channel, p.channels),
                  g = load_channels<G>(p.g, p.g_pitch, row, channel, p.channels);
      Octet y;
#pragma unroll
      for (u32 k = 0; k < 8; ++k) {
        const float moved = factors[k].x * g.of[k] + factors[k].y * (x.of[k] - factors[k].w) + factors[k].z;
        y.of[k] = channel + k < p.channels ? moved : 0.f;
      }
      store_channels<Y>(p.y, p.y_pitch, row, channel, p.channels, y);
    });
  }
}

template <class Y>
UNISONO_DEVICE void norm_gradient_of_vector(const NormVectorParams& p) {
  for (u64 i = first_index(); i < p.channels; i += index_step())
    tensor::store<Y>(p.y, i64(i), sum_over_images(p.from + i, p.images, p.pitch));
}

}  // namespace unisono::product
