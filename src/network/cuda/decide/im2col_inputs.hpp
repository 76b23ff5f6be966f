#pragma once

#include "unisono/contraction.hpp"

namespace unisono::network::gpu {

/// The same sums from an image whose channels are all filter taps of an image row: one tap a row, channels (s, c).
Conv2d im2col_of(const Conv2d& c);

}  // namespace unisono::network::gpu
