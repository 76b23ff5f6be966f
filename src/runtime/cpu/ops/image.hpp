#pragma once
/// Memory of the operators that are no contraction: batches of channels-last images, and how work is shared out.

#include <cstdint>
#include <functional>

#include "support/function_ref.hpp"

namespace unisono::cpu {

/// Element (n,h,w,c) is data[((n·height + h)·width + w)·pixel_stride + c]; pixel_stride > channels for a channel slice
/// of a wider tensor.
template <class T>
struct Image {
  T* data = nullptr;
  std::int64_t images = 1, height = 1, width = 1, channels = 1;
  std::int64_t pixel_stride = 1;

  T* pixel(std::int64_t n, std::int64_t h, std::int64_t w) const {
    return data + ((n * height + h) * width + w) * pixel_stride;
  }
};

/// A range of a loop.
using RangeBody = support::FunctionRef<void(std::int64_t begin, std::int64_t end)>;

/// Runs body(begin, end) over ranges that together are [0, count), on as many threads as its maker chose. Exceptions of
/// the body reach the caller.
using Parallel = std::function<void(std::int64_t count, RangeBody body)>;

/// On the calling thread.
inline void serial(std::int64_t count, RangeBody body) {
  if (count > 0) body(0, count);
}

}  // namespace unisono::cpu
