#include "families/sm90_conv/features.hpp"

#include <fmt/format.h>

#include <numeric>

#include "families/sm90_conv/shared_memory.hpp"

namespace unisono::families::sm90_conv {

// Planes by TMA: kernels/unisono/epilogue/sm90_plane_slices.cuh. Rows of a plane are of multiples of 16 bytes, and four
// matrices of a slice are written at once; a quarter that TMA swizzles is eight rows of 128 bytes, or sixteen.
sm90::Stores stores_for(const ConvConfig& c, const sm90::ConvProblem& p) {
  const sm90::Stores stores = sm90::stores_of(p.task);
  if (stores != sm90::Stores::planes || c.tile.n % (c.two_dimensional() ? 16 : 32) != 0) return stores;
  return (c.two_dimensional() ? p.extents.width : p.pixels()) % 8 == 0 ? sm90::Stores::planes_tma : stores;
}

std::optional<plan::Refusal> refuse_resampling(const ConvConfig& c, const sm90::ConvProblem& p) {
  const plan::Resampling& r = c.features.resampling;
  if (r != p.resampling) return sm90::unfit("pooled or upsampled stores: not as the epilogue says");
  if (!r.any()) return {};
  if (c.by_parity()) return sm90::unfit("pooled or upsampled stores: the pixels of a phase are not neighbours");
  if (c.features.stores != sm90::Stores::tma)
    return sm90::unfit(
        "pooled or upsampled stores: {} output channels in {}; only rows of a multiple of 8 go through TMA",
        p.extents.cols, c.features.stores == sm90::Stores::plain ? "rows" : "planes");
  if (r.pooled && !c.two_dimensional())
    return sm90::unfit(
        "pooled: im2col tiles; windows of 2x2 pixels lie in halo tiles only, which take stride 1 and "
        "TMA's loads");
  if (r.upsampled && !c.two_dimensional() && !pixels_divide_image_rows(p.extents.width))
    return sm90::unfit(
        "upsampled: im2col tiles in image rows of {}; 16 neighbouring pixels are a part of one, or whole ones, at "
        "widths "
        "that are multiples or divisors of 16; else only halo tiles do",
        p.extents.width);
  return {};
}

namespace {
// The loads of a configuration that have no form with two filters; nothing: they have one
const char* loads_of_one(const ConvConfig& c) {
  if (c.gathered()) return "gathered operands";
  if (c.window()) return "an im2col matrix in shared memory";
  if (c.of_volumes()) return "tiles of volumes";
  if (c.by_parity()) return "tiles by output parity";
  if (c.operands.flipped) return "flipped taps";
  if (c.operands.grouped()) return "tiles of several groups";
  if (c.halo() && (c.operands.columns_b || c.operands.batched)) return "halo tiles of a product";
  return c.operands.converted ? "converted planes" : nullptr;
}
}  // namespace

// Two products of one A: kernels/unisono/tile/layout.cuh, DualMatrices and DualImages.
std::optional<plan::Refusal> refuse_products(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (c.operands.products != p.task.products) return sm90::unfit("products: not as the contraction says");
  if (c.operands.products == 1) return {};
  if (const char* loads = loads_of_one(c))
    return sm90::unfit("two products: {}; TMA loads A, and a box of either B for each k-step", loads);
  if (c.schedule.split)
    return sm90::unfit("two products: split-K; the parts of a tile are handed over for one product");
  if (c.schedule.swap)
    return sm90::unfit(
        "two products: swapped operands; a thread has both accumulators of an element only "
        "if columns are those of a matrix instruction");
  if (c.schedule.stationary) return sm90::unfit("two products: stationary filters; both B come with A");
  if (c.features.moments > 0) return sm90::unfit("two products: stored statistics, which are taken of one accumulator");
  if (c.columns_b() && c.tile.n % 64 != 0)
    return sm90::unfit(
        "two products: {} columns of B (k, n) a tile; boxes have 64, and one product's are followed by the "
        "other's",
        c.tile.n);
  return {};
}

bool sensible_products(const ConvConfig& c, const sm90::ConvProblem& p, const sm90::FixedFields& fixed) {
  return p.task.products == 1 || ((!c.schedule.split || fixed.split) && (!c.schedule.swap || fixed.swap) &&
                                  (!c.schedule.stationary || fixed.stationary) &&
                                  (!c.halo() || fixed.load || p.extents.height > 1));  // tiles of one image row
}

// Few channels a unit: its entries of a tile are merged one after another, by a thread each. An even number, if there
// is one: lanes then merge two channels at once.
int moments_unit(const sm90::ConvProblem& p, int tile_n) {
  if (p.moments == 0) return 0;
  const auto whole = std::gcd(p.moments, std::int64_t{tile_n});
  for (const int unit : {4, 2, 5, 3})
    if (whole % unit == 0) return unit;
  return 1;
}

}  // namespace unisono::families::sm90_conv
