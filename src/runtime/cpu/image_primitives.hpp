#pragma once
/// The oneDNN primitives of convolutions and transposed convolutions of one strip of output rows.

#include <cstdint>
#include <string>
#include <tuple>

#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/tiling.hpp"
#include "unisono/contraction.hpp"

namespace unisono::cpu {

/// Which input rows a strip of output rows reads, and the padding that is left above and below them.
struct Window {
  std::int64_t first = 0, height = 0;  ///< input rows
  std::int64_t output = 0;             ///< output rows
  std::int64_t pad_top = 0, pad_bottom = 0;
  bool padding = false;  ///< no input row is read: the result is the bias

  auto geometry() const { return std::tuple(height, output, pad_top, pad_bottom); }
};
Window window_of(const Conv2d& c, const Strip& strip);
Window window_of(const ConvTranspose2d& c, const Strip& strip);

/// The filter for oneDNN: ([groups,] outputs, inputs, R, S), and the strides of the caller's dense one.
struct FilterDims {
  dnnl::memory::dims dims, strides;
};
FilterDims filter_dims(const Conv2d& c);
FilterDims filter_dims(const ConvTranspose2d& c);

/// Into how many parts of the input channels (of each group) a convolution is divided, one after the other, each added
/// to the sum of those before it: 1 unless its sums are long.
std::int64_t channel_parts(const Conv2d& c, DType compute);
inline std::int64_t channel_parts(const ConvTranspose2d&, DType) { return 1; }

struct ImagePrimitive {
  Callable call;  ///< source, filter, bias, destination, scratchpad
  dnnl::memory::desc weights;
  std::size_t scratchpad = 0;  ///< bytes
  std::string implementation;
  std::size_t filter = 0;  ///< which of the filter's packings it reads

  /// oneDNN's plain loops, for what it has no kernel for
  bool is_slow() const { return implementation.starts_with("ref"); }
};

/// What a primitive does with the memory that it writes.
enum class Destination { overwrite, add };

/// `width` is that of the output, `weights` the filter's format, or any.
ImagePrimitive image_primitive(const Conv2d& c, const Window& w, std::int64_t width, DType compute, bool with_bias,
                               const dnnl::memory::desc& weights, Destination destination);
ImagePrimitive image_primitive(const ConvTranspose2d& c, const Window& w, std::int64_t width, DType compute,
                               bool with_bias, const dnnl::memory::desc& weights, Destination destination);

}  // namespace unisono::cpu
