#pragma once
/// Batched matrix products, and convolutions of volumes, both by oneDNN.

#include "runtime/cpu/ops/tensor.hpp"

namespace coda::cpu {

/// y (…,M,N) = a (…,M,K) · b (…,K,N), all of one rank of at least 2; an extent of 1 before the last two broadcasts. f32
/// (by oneDNN), f64, i32, i64, u32, u64 (integers wrap).
void matmul(const Strided& a, const Strided& b, const Strided& y, int threads);

/// Three entries each.
struct Volumes {
  Extents64 stride, dilation, before, after, output_pad;
  std::int64_t groups = 1;
  bool transposed = false;
};

/// x (N,C,D,H,W), w (K,C/groups,…) or, transposed, (C,K/groups,…), bias (K) or null → y (N,K,…); f32, dense row-major.
void conv3d(const Volumes& v, const Strided& x, const Strided& w, const Strided* bias, const Strided& y, int threads);

}  // namespace coda::cpu
