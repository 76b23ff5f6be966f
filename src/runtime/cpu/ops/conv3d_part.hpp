#pragma once
/// What oneDNN computes of a convolution of volumes in one call.

#include <tuple>
#include <vector>

#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/ops/volumes.hpp"

namespace unisono::cpu {

/// Output slices [first, first + count) of a volume's depth, the input slices that they read, and the padding that is
/// left ahead of these and after them.
struct DepthRange {
  std::int64_t first = 0, count = 0;
  std::int64_t in_first = 0, in_count = 0;
  std::int64_t before = 0, after = 0;

  auto geometry() const { return std::tuple(count, in_count, before, after); }
};

/// The depth of y as one range.
DepthRange whole_depth(const Volumes& v, const Strided& x, const Strided& y);
/// The depth of y in about `wanted` ranges of consecutive slices; in one where a range would read no input, or where a
/// transposed convolution's slices overlap.
std::vector<DepthRange> depth_ranges(const Volumes& v, const Strided& x, const Strided& w, const Strided& y,
                                     std::int64_t wanted);

/// Values in one order to another.
struct Reordering {
  Callable call;  ///< from, to, scratchpad
  std::size_t scratchpad = 0;
};
Reordering reordering(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

/// A float32 tensor for oneDNN.
dnnl::memory::desc desc_of(const Extents64& shape, const Extents64& strides);
/// The strides of `x`, but for those that count nothing: oneDNN refuses some of these.
Extents64 strides_of(const Strided& x);

/// Output channels of one image, of one group or of several whole groups, in a range of its depth. Long sums take
/// several calls, each with some of the input channels.
struct Conv3dPart {
  struct Extent {
    std::int64_t groups, in, out;  ///< channels of a group
  };
  /// `like`: has the same channels, and its filter is read in its format; null: in the format that oneDNN prefers.
  Conv3dPart(const Volumes& v, const Strided& x, const Strided& w, bool has_bias, const Strided& y, const Extent& e,
             const DepthRange& depth, const Conv3dPart* like);

  Callable begin, add;  ///< source, filter, bias (begin only), target, scratchpad
  dnnl::memory::desc filter, target;
  Reordering read_filter, write;
  std::size_t scratchpad = 0;
  bool is_slow = false;  ///< oneDNN has plain loops only
};

}  // namespace unisono::cpu
