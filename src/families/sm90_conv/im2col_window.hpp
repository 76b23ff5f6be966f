#pragma once
/// Images of few channels, of whose windows a CTA makes im2col rows in shared memory:
/// kernels/unisono/load/sm90_explicit_im2col.cuh.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "plan/as_convolution.hpp"
#include "plan/refusal.hpp"

namespace unisono::families::sm90_conv {

/// The geometry of the filter, and of the window of the image that the pixels of a tile see.
struct Im2colWindow {
  int lines = 1, taps = 1, channels = 1;  ///< R, S, C
  int stride_h = 1, stride_w = 1, dilation_h = 1;
  int pitch = 0;  ///< bytes from an image row of a window to the next
  int shift = 0;  ///< elements of such a row ahead of the first tap: TMA begins at multiples of 16 bytes

  /// TMA can load boxes (channels, pixels, image rows), of images whose pixels lie apart, and boxes (elements of an
  /// image row, image rows), of dense ones. The latter are quicker: what counts for it is rows of its boxes.
  bool by_pixels() const { return channels % 8 == 0; }
  bool by_lines() const { return pitch <= 512; }
  /// Whether some pixels begin at odd elements.
  bool odd() const { return (stride_w * channels | shift) % 2 != 0; }
  /// Chunks of 8 elements of a filter row; k-steps of so many elements.
  int line_chunks() const { return (taps * channels + 7) / 8; }
  int steps(int tile_k) const { return (8 * lines * line_chunks() + tile_k - 1) / tile_k; }
  /// Image rows that a tile of so many pixels, 8 wide, sees; bytes of its window.
  int window_lines(int tile_m) const;
  std::size_t window_bytes(int tile_m) const;

  bool operator==(const Im2colWindow&) const = default;
};

/// Why no kernel does im2col of the operands' image in shared memory; nothing: one can.
std::optional<plan::Refusal> beyond_explicit_im2col(const plan::ConvTask& task);

/// What beyond_explicit_im2col() says nothing against.
Im2colWindow im2col_window_of(const Conv2d& conv);

}  // namespace unisono::families::sm90_conv
