/// A tensor in the place of an accumulator.

#include "runtime/cpu/accumulator.hpp"
#include "runtime/cpu/block_io.hpp"
#include "runtime/cpu/views.hpp"

namespace unisono::cpu {

namespace {

class TensorSource final : public AccumulatorSource {
 public:
  TensorSource(const Extents& e, const VectorUnit& unit) : e_(e), unit_(&unit) {}

  void check(const Arguments& arguments) const override {
    const DType f32[] = {DType::f32};
    checked_strides(arguments.image, {e_.images, e_.height, e_.width, e_.cols}, f32, "the tensor that stands for acc");
  }

  void prepare(const Arguments&, std::byte*) const override {}

  const float* in_memory(const Arguments& arguments) const override {
    const PixelStrides s = strides(arguments);
    const bool dense = (e_.cols == 1 || s.col == 1) && s.uniform(e_, e_.cols);
    return dense ? static_cast<const float*>(arguments.image.data) : nullptr;
  }

  void compute(const Arguments& arguments, const Strip& strip, const float*, float* acc, const std::byte*,
               std::byte*) const override {
    const BoundTensor from{.data = arguments.image.data, .dtype = DType::f32, .strides = strides(arguments)};
    load_block(*unit_, from, e_, {strip.image, strip.first * e_.width, strip.height * e_.width}, e_.cols, false, acc);
  }

  std::string describe() const override { return "a tensor that the caller gives"; }

 private:
  PixelStrides strides(const Arguments& arguments) const {
    const auto& a = arguments.image;
    return a.strides.empty() ? pixel_strides(row_major_strides(a.shape), Layout::nhwc)
                             : pixel_strides(a.strides, Layout::nhwc);
  }

  Extents e_;
  const VectorUnit* unit_;
};

}  // namespace

std::unique_ptr<AccumulatorSource> tensor_source(const Extents& extents, const VectorUnit& unit) {
  return std::make_unique<TensorSource>(extents, unit);
}

}  // namespace unisono::cpu
