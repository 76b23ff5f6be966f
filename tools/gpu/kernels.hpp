#pragma once
/// The tests' own kernels (kernels.cuh), compiled by the library's compiler and cache.

#include <array>
#include <string>

#include "gpu/device.hpp"
#include "jit/jit.hpp"
#include "unisono/contraction.hpp"

namespace unisono::gpu {

/// As in kernels.cuh.
struct Shape {
  int n, h, w, c, k, r, s, p, q, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int type;
};
struct Product {
  int batch, m, n, k, transpose_a, transpose_b;
  int type;
};
struct General {
  Shape shape;
  int groups, nchw, transposed;
};
struct BlockCheck {
  int groups;
  double accumulate, half_step, kept, fast_slope, fast_constant;
};
struct Verdict {
  unsigned long long wrong, poisoned;
  float worst;
  unsigned worst_index;
};

Shape shape_of(const Conv2d& conv);
Product product_of(const Gemm& gemm);
/// What a Conv2d and a ConvTranspose2d have in common.
General general_of(const Contraction& contraction);

/// The compiler of all tests: one cache, found as the library finds it (UNISONO_CACHE_DIR).
jit::Jit& compiler();
/// What compiling kernels.cuh asks for, for --precompile.
jit::Request kernels_request(const plan::Device& device);

/// Launches the kernel `name` of kernels.cuh over `threads` threads in CTAs of 256 (at most 4096 CTAs if it
/// strides).
template <class... Arguments>
void launch(const char* name, std::uint64_t threads, CUstream stream, Arguments... arguments);

namespace detail {
void launch(const char* name, std::uint64_t ctas, CUstream stream, void** arguments);
}

template <class... Arguments>
void launch(const char* name, std::uint64_t threads, CUstream stream, Arguments... arguments) {
  std::array<void*, sizeof...(Arguments)> list{static_cast<void*>(&arguments)...};
  detail::launch(name, (threads + 255) / 256, stream, list.data());
}

/// A grid for kernels that stride over any count.
inline constexpr std::uint64_t striding = 1024 * 256;

/// Number of 32-bit words in which two tensors of so many bytes differ; a rest of two bytes counts as a word.
unsigned long long differences(CUdeviceptr a, CUdeviceptr b, std::size_t bytes, CUstream stream);

}  // namespace unisono::gpu
