#include "families/sm90_depthwise/strip.hpp"

#include <algorithm>

namespace unisono::families::sm90_depthwise {

DepthwiseLayout depthwise_layout(const DepthwiseStrip& s, const Conv2d& c, const Extents& e) {
  DepthwiseLayout l;
  if (s.taps_h > 0) {
    if (s.stride_h == 1) l.lattice_h = static_cast<int>(c.dilation[0]);
    if (s.stride_w == 1) l.lattice_w = static_cast<int>(c.dilation[1]);
  }
  // A lattice that is coarser than the image has one pixel
  l.lattice_h = static_cast<int>(std::min<std::int64_t>(l.lattice_h, e.height));
  l.lattice_w = static_cast<int>(std::min<std::int64_t>(l.lattice_w, e.width));
  l.across = divide_up(e.width, std::int64_t{s.pixels} * l.lattice_w) * l.lattice_w;
  l.down = divide_up(e.height, std::int64_t{s.rows} * l.lattice_h) * l.lattice_h;
  l.strips = l.across * l.down * e.images;
  for (int band = 1; band <= 8; ++band)
    if (l.down % band == 0) l.band = band;
  return l;
}

}  // namespace unisono::families::sm90_depthwise
