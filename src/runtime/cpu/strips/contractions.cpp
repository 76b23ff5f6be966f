#include "runtime/cpu/strips/contractions.hpp"

#include <fmt/format.h>

#include <cstring>

#include "coda/error.hpp"
#include "runtime/cpu/elements.hpp"
#include "runtime/cpu/strips/onednn.hpp"
#include "runtime/cpu/views.hpp"

namespace coda::cpu {

namespace {

// A tensor of the caller that stands in for the accumulator
class TensorSource final : public AccumulatorSource {
 public:
  explicit TensorSource(const Extents& e) : e_(e) {}

  void check(const Arguments& arguments) const override {
    const DType allowed[] = {DType::f32};
    checked_strides(arguments.a, {e_.images, e_.height, e_.width, e_.cols}, allowed, "input a");
  }
  void prepare(const Arguments&, std::byte*) const override {}

  void compute(const Arguments& arguments, const Strip& strip, float* acc, const std::byte*,
               std::byte*) const override {
    const auto strides = arguments.a.strides.empty() ? row_major_strides(arguments.a.shape) : arguments.a.strides;
    const auto* from =
        static_cast<const float*>(arguments.a.data) + strip.image * strides[0] + strip.first * strides[1];
    for (std::int64_t h = 0; h < strip.height; ++h)
      for (std::int64_t w = 0; w < e_.width; ++w, acc += e_.cols) {
        const float* pixel = from + h * strides[1] + w * strides[2];
        if (strides[3] == 1)
          std::memcpy(acc, pixel, static_cast<std::size_t>(e_.cols) * sizeof(float));
        else
          for (std::int64_t c = 0; c < e_.cols; ++c) acc[c] = pixel[c * strides[3]];
      }
  }

  const float* in_memory(const Arguments& arguments) const override {
    const std::vector<std::int64_t> shape{e_.images, e_.height, e_.width, e_.cols};
    const bool dense = arguments.a.strides.empty() || arguments.a.strides == row_major_strides(shape);
    return dense ? static_cast<const float*>(arguments.a.data) : nullptr;
  }

  std::string describe() const override { return "no contraction: the accumulator is a tensor"; }

 private:
  Extents e_;
};

}  // namespace

DType product_dtype(const Contraction& contraction, DType a, DType b) {
  const auto served = [](DType t) {
    return t == DType::f32 || t == DType::tf32 || t == DType::f16 || t == DType::bf16;
  };
  if (!served(a) || !served(b))
    throw Unsupported(fmt::format("{}: the CPU backend multiplies f32, tf32, f16 and bf16; it was given {} and {}",
                                  to_string(contraction), to_string(a), to_string(b)));
  const auto isa = dnnl::get_effective_cpu_isa();
  const bool native = isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_fp16 ||
                      isa == dnnl::cpu_isa::avx512_core_amx || isa == dnnl::cpu_isa::avx512_core_amx_fp16;
  return native && a == DType::bf16 && b == DType::bf16 ? DType::bf16 : DType::f32;
}

std::unique_ptr<AccumulatorSource> tensor_source(const Extents& extents) {
  return std::make_unique<TensorSource>(extents);
}

std::unique_ptr<AccumulatorSource> contraction_source(const Contraction& contraction, const Tiling& tiling,
                                                      const CompileOptions& options) {
  if (const auto* c = std::get_if<Conv2d>(&contraction)) return convolution_source(*c, tiling, options);
  if (const auto* c = std::get_if<ConvTranspose2d>(&contraction))
    return transposed_convolution_source(*c, tiling, options);
  return gemm_source(std::get<Gemm>(contraction), tiling, options);
}

}  // namespace coda::cpu
