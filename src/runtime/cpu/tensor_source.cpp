/// A tensor in the place of an accumulator.

#include <cstring>

#include "runtime/cpu/accumulator.hpp"
#include "runtime/cpu/elements.hpp"
#include "runtime/cpu/views.hpp"

namespace coda::cpu {

namespace {

class TensorSource final : public AccumulatorSource {
 public:
  explicit TensorSource(const Extents& e) : e_(e) {}

  void check(const Arguments& arguments) const override {
    const DType f32[] = {DType::f32};
    checked_strides(arguments.a, {e_.images, e_.height, e_.width, e_.cols}, f32, "the tensor (a) that stands for acc");
  }

  void prepare(const Arguments&, std::byte*) const override {}

  const float* in_memory(const Arguments& arguments) const override {
    const PixelStrides s = strides(arguments);
    const bool dense = (e_.cols == 1 || s.col == 1) && s.uniform(e_, e_.cols);
    return dense ? static_cast<const float*>(arguments.a.data) : nullptr;
  }

  void compute(const Arguments& arguments, const Strip& strip, float* acc, const std::byte*,
               std::byte*) const override {
    const PixelStrides s = strides(arguments);
    const auto* base = static_cast<const float*>(arguments.a.data) + strip.image * s.image;
    for (std::int64_t p = strip.first; p < strip.first + strip.height; ++p)
      for (std::int64_t q = 0; q < e_.width; ++q, acc += e_.cols) {
        const float* pixel = base + p * s.row + q * s.pixel;
        if (s.col == 1) {
          std::memcpy(acc, pixel, static_cast<std::size_t>(e_.cols) * sizeof(float));
        } else {
          for (std::int64_t n = 0; n < e_.cols; ++n) acc[n] = pixel[n * s.col];
        }
      }
  }

  std::string describe() const override { return "a tensor that the caller gives"; }

 private:
  PixelStrides strides(const Arguments& arguments) const {
    const auto& a = arguments.a;
    return pixel_strides(a.strides.empty() ? row_major_strides(a.shape) : a.strides, Layout::nhwc);
  }

  Extents e_;
};

}  // namespace

std::unique_ptr<AccumulatorSource> tensor_source(const Extents& extents) {
  return std::make_unique<TensorSource>(extents);
}

}  // namespace coda::cpu
