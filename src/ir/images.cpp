#include "unisono/images.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono {
namespace {

/// Extents and strides of a view as (batch, three axes); a batch of one if the view has none.
struct FourAxes {
  std::array<std::int64_t, 4> extent{1, 1, 1, 1}, stride{0, 0, 0, 0};
};

[[noreturn]] void refuse_shapes(const ConstTensorView& pixels, const TensorView& tensor) {
  throw UserError(fmt::format(
      "read_pixels: pixels of shape ({}) and a tensor of shape ({}); expected (height, width, channels) and "
      "(channels, height, width), or both with a batch in front",
      fmt::join(pixels.shape, ","), fmt::join(tensor.shape, ",")));
}

FourAxes four_axes(const ConstTensorView& view, std::string_view what) {
  FourAxes axes;
  const std::vector<std::int64_t> strides = view.strides.empty() ? row_major_strides(view.shape) : view.strides;
  if (strides.size() != view.shape.size())
    throw UserError(fmt::format("read_pixels: {} have {} extents and {} strides; expected as many or no strides", what,
                                view.shape.size(), strides.size()));
  const std::size_t first = 4 - view.shape.size();
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] < 0)
      throw UserError(
          fmt::format("read_pixels: {} have the strides ({}); expected none below 0", what, fmt::join(strides, ",")));
    axes.extent[first + i] = view.shape[i];
    axes.stride[first + i] = strides[i];
  }
  if (element_count(view.shape) > 0 && view.data == nullptr)
    throw UserError(fmt::format("read_pixels: {} have the address 0; expected their memory", what));
  return axes;
}

void check_dtypes(const ConstTensorView& pixels, const TensorView& tensor) {
  if (pixels.dtype != DType::u8)
    throw UserError(fmt::format("read_pixels: pixels are {}; expected u8", to_string(pixels.dtype)));
  const DType t = tensor.dtype;
  if (t != DType::f32 && t != DType::f16 && t != DType::bf16 && t != DType::f64)
    throw UserError(fmt::format("read_pixels: the tensor is {}; expected f32, f16, bf16 or f64", to_string(t)));
}

/// One value for each channel.
std::vector<double> by_channel(const std::vector<double>& given, std::int64_t channels, double otherwise,
                               std::string_view what) {
  const auto count = static_cast<std::size_t>(channels);
  if (given.size() > 1 && given.size() != count)
    throw UserError(fmt::format("read_pixels: {} has {} values; expected one, or one for each of {} channels", what,
                                given.size(), channels));
  for (const double x : given)
    if (!std::isfinite(x) || (what == "deviation" && x == 0))
      throw UserError(fmt::format("read_pixels: {} has the value {}; expected a finite number{}", what, x,
                                  what == "deviation" ? " other than 0" : ""));
  if (given.size() == count) return given;
  return std::vector<double>(count, given.empty() ? otherwise : given[0]);
}

/// Elements of one size, as what each of the 256 bytes becomes in one channel, and that channel's pixels looked up.
template <class Bits>
class Channel {
 public:
  Channel(const PixelScale& scale, double mean, double deviation, DType t) {
    for (int byte = 0; byte < 256; ++byte)
      support::store(elements_.data(), byte, t, (byte * scale.scale + scale.offset - mean) / deviation);
  }

  /// Rows of all images: `in` and `out` at the channel's first pixel.
  void read(const std::uint8_t* in, const FourAxes& from, Bits* out, const FourAxes& to) const {
    const auto [batch, height, width, channels] = from.extent;
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t y = 0; y < height; ++y) {
        const std::uint8_t* source = in + n * from.stride[0] + y * from.stride[1];
        Bits* row = out + n * to.stride[0] + y * to.stride[2];
        for (std::int64_t x = 0; x < width; ++x) row[x * to.stride[3]] = elements_[source[x * from.stride[2]]];
      }
  }

 private:
  std::array<Bits, 256> elements_{};
};

template <class Bits>
void read_channels(const ConstTensorView& pixels, const FourAxes& from, const PixelScale& scale,
                   const TensorView& tensor, const FourAxes& to) {
  const std::int64_t channels = from.extent[3];
  const std::vector<double> mean = by_channel(scale.mean, channels, 0, "mean");
  const std::vector<double> deviation = by_channel(scale.deviation, channels, 1, "deviation");
  if (std::ranges::find(from.extent, 0) != from.extent.end()) return;  // the data may be null
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const Channel<Bits> channel(scale, mean[at], deviation[at], tensor.dtype);
    channel.read(static_cast<const std::uint8_t*>(pixels.data) + c * from.stride[3], from,
                 static_cast<Bits*>(tensor.data) + c * to.stride[1], to);
  }
}

}  // namespace

void read_pixels(const ConstTensorView& pixels, const PixelScale& scale, const TensorView& tensor) {
  check_dtypes(pixels, tensor);
  const std::size_t rank = pixels.shape.size();
  if (rank != tensor.shape.size() || (rank != 3 && rank != 4)) refuse_shapes(pixels, tensor);
  const FourAxes from = four_axes(pixels, "pixels");                // batch, height, width, channels
  const FourAxes to = four_axes(tensor, "elements of the tensor");  // batch, channels, height, width
  const auto [batch, height, width, channels] = from.extent;
  if (to.extent != std::array{batch, channels, height, width}) refuse_shapes(pixels, tensor);
  if (!std::isfinite(scale.scale) || !std::isfinite(scale.offset))
    throw UserError(
        fmt::format("read_pixels: scale {} and offset {}; expected finite numbers", scale.scale, scale.offset));
  switch (size_of(tensor.dtype)) {
    case 2: return read_channels<std::uint16_t>(pixels, from, scale, tensor, to);
    case 4: return read_channels<std::uint32_t>(pixels, from, scale, tensor, to);
    default: return read_channels<std::uint64_t>(pixels, from, scale, tensor, to);
  }
}

}  // namespace unisono
