#include "tuner/device_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "codegen/codegen.hpp"
#include "codegen/pieces.hpp"
#include "runtime/cuda/backend.hpp"
#include "unisono/error.hpp"
#include "unisono/params/check_params.cuh"

namespace unisono::tuner {
namespace {

constexpr const char* kernel_text = R"(// What the tuner checks plans with.
#include <unisono/check/check.cuh>

extern "C" __global__ void __launch_bounds__(256)
unisono_check_fill(const __grid_constant__ unisono::FillParams p) {
    unisono::begin();
    unisono::check::fill(p);
}

extern "C" __global__ void __launch_bounds__(256)
unisono_check_sums(const __grid_constant__ unisono::SumsParams p) {
    unisono::begin();
    unisono::check::sums(p);
}
)";

template <class P>
void launch(const std::shared_ptr<const cuda::PlainKernel>& kernel, std::uint64_t threads, const P& parameters,
            const char* what, Stream stream) {
  const auto ctas = static_cast<std::uint32_t>(std::clamp<std::uint64_t>((threads + 255) / 256, 1, 4096));
  cuda::bind_plain(kernel, {ctas, 256}, std::as_bytes(std::span(&parameters, 1)), what).enqueue(stream);
}

ElementCode type_of(DType t) {
  const ElementCode code = codegen::element_code(t);
  if (code == ElementCode::none) throw InternalError(fmt::format("the tuner's kernels read no {}", to_string(t)));
  return code;
}

[[noreturn]] void refuse(const Contraction& contraction) {
  throw Unsupported(fmt::format("{}: the tuner has no kernel that checks its results; there is nothing to tune in it",
                                to_string(contraction)));
}

void describe(SumsParams&, const FilterGradient2d& gradient) { refuse(gradient); }

void describe(SumsParams& p, const Gemm& g) {
  if (!g.group_rows.empty()) refuse(g);
  p.product = 1, p.columns_a = g.transpose_a, p.columns_b = !g.transpose_b;
  p.channels = static_cast<int>(g.k), p.outputs = static_cast<int>(g.n);
  p.out_height = static_cast<int>(g.m), p.out_width = 1;
  p.type = type_of(g.dtype_a);
}

template <class Convolution>
void describe(SumsParams& p, const Convolution& c) {
  const auto i = [](std::int64_t x) { return static_cast<int>(x); };
  const Extents e = extents(Contraction(c));
  p.height = i(c.h), p.width = i(c.w), p.channels = i(c.c), p.outputs = i(c.k);
  p.out_height = i(e.height), p.out_width = i(e.width);
  p.taps_h = i(c.r), p.taps_w = i(c.s), p.groups = i(c.groups);
  p.stride_h = i(c.stride[0]), p.stride_w = i(c.stride[1]);
  p.pad_h = i(c.pad[0]), p.pad_w = i(c.pad[1]);
  p.dilation_h = i(c.dilation[0]), p.dilation_w = i(c.dilation[1]);
  p.depth = p.taps_d = p.stride_d = p.dilation_d = 1, p.plane_height = p.out_height;
  p.planes = c.layout == Layout::nchw;
  p.transposed = std::is_same_v<Convolution, ConvTranspose2d>;
  p.type = type_of(c.dtype_x);
}

void describe(SumsParams& p, const Conv3d& c) {
  const auto i = [](std::int64_t x) { return static_cast<int>(x); };
  const Extents e = extents(c);
  p.depth = i(c.d), p.height = i(c.h), p.width = i(c.w), p.channels = i(c.c), p.outputs = i(c.k);
  p.out_height = i(e.height), p.out_width = i(e.width), p.plane_height = i(e.height / output_planes(c));
  p.taps_d = i(c.t), p.taps_h = i(c.r), p.taps_w = i(c.s), p.groups = i(c.groups);
  p.stride_d = i(c.stride.d), p.stride_h = i(c.stride.h), p.stride_w = i(c.stride.w);
  p.pad_d = i(c.before.d), p.pad_h = i(c.before.h), p.pad_w = i(c.before.w);
  p.dilation_d = i(c.dilation.d), p.dilation_h = i(c.dilation.h), p.dilation_w = i(c.dilation.w);
  p.type = type_of(c.dtype_x);
}

}  // namespace

DeviceKernels::DeviceKernels(int device_index, jit::Jit& compiler) {
  std::vector<jit::Header> headers;
  for (const codegen::Header& h : codegen::device_headers()) headers.push_back({h.name, h.text});
  const jit::Binary binary = compiler.compile(jit::Request{.source = kernel_text,
                                                           .headers = headers,
                                                           .entry = "unisono_check_sums",
                                                           .title = "what the tuner checks plans with",
                                                           .arch = cuda::open_device(device_index).arch()});
  fill_ = cuda::load_plain(device_index, binary, "unisono_check_fill", sizeof(FillParams));
  sums_ = cuda::load_plain(device_index, binary, "unisono_check_sums", sizeof(SumsParams));
}

void DeviceKernels::fill(void* to, DType type, std::int64_t count, double mean, double deviation, std::uint64_t seed,
                         Stream stream) const {
  if (codegen::element_code(type) == ElementCode::none) return;
  FillParams p{};
  p.to = to, p.count = static_cast<u64>(count), p.seed = seed;
  p.scale = static_cast<float>(std::sqrt(3.0) * deviation), p.offset = static_cast<float>(mean);
  p.type = type_of(type);
  launch(fill_, p.count, p, "a kernel that fills operands", stream);
}

void DeviceKernels::poison(void* to, std::size_t bytes, Stream stream) const {
  FillParams p{};
  p.to = to, p.count = bytes / 2, p.type = ElementCode::none;
  launch(fill_, p.count, p, "a kernel that fills outputs", stream);
}

void DeviceKernels::sums(const Contraction& contraction, const void* a, const void* b, std::int64_t first_row,
                         std::int64_t rows, double* sum, double* absolute, Stream stream) const {
  SumsParams p{};
  p.a = a, p.b = b;
  p.sum = sum, p.absolute = absolute;
  p.first_row = static_cast<u64>(first_row), p.rows = static_cast<u64>(rows);
  std::visit([&](const auto& c) { describe(p, c); }, contraction);
  launch(sums_, p.rows * static_cast<u64>(p.outputs), p, "a kernel that computes accumulators in float64", stream);
}

}  // namespace unisono::tuner
