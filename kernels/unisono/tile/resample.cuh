// What a kernel makes of its main store besides writing it as it is: what a network has between its convolutions. A
// configuration says so by a type `Resample`.
#pragma once
#include "unisono/params/sm90_kernel_params.cuh"
#include "unisono/ptx/types.cuh"
#include "unisono/tile/layout.cuh"

namespace unisono {

struct AsItIs {
  static constexpr bool kOnly = false, kPooled = false, kUpsampled = false;
  static constexpr int kCopies = 0, kMaps = 0;
};

// kUpsampled: each pixel four times, to a tensor of twice the height and width: by four maps, the tensor of each of
// which has every second pixel of every second image row. kOnly: to no other place; the first of the four maps is then
// ConvParams::output. kPooled: the largest of each 2x2 pixels, of two-dimensional tiles. kCopies maps, and the
// PooledOutput, follow ConvParams: kMaps in all.
template <bool kOnlyThese, bool kPool, bool kUpsample>
struct Resampled {
  static constexpr bool kOnly = kOnlyThese, kPooled = kPool, kUpsampled = kUpsample;
  static constexpr int kCopies = params_layout::upsampled_maps(kUpsampled, kOnly),
                       kMaps = params_layout::resampled_maps(kUpsampled, kOnly, kPooled);
  static_assert(!kOnly || kUpsampled, "the main store is written, as it is or upsampled");
};

// Maps of the output's phases but the first.
template <class Config>
constexpr int phase_maps() {
  return Config::Operands::kPhases ? params_layout::kPhaseMaps : 0;
}

// The parameter of a convolution's kernel: ConvParams, further maps if there are any, the visitor's fields of 8 bytes.
// The host fills it by params_layout::layout.
template <int kMaps, class Visitor>
struct KernelParams {
  ConvParams fixed;
  MapOr<PooledOutput, PlanesToConvert> maps[kMaps];
  Visitor visitor;
  UNISONO_DEVICE const MapOr<PooledOutput, PlanesToConvert>* further() const { return maps; }
};
template <class Visitor>
struct KernelParams<0, Visitor> {
  ConvParams fixed;
  Visitor visitor;
  UNISONO_DEVICE const MapOr<PooledOutput, PlanesToConvert>* further() const { return nullptr; }
};

// The largest of each of eight elements, in their own type: NaN propagates.
template <class Element>
UNISONO_DEVICE uint4 largest(const uint4& a, const uint4& b) {
  return {Element::max(a.x, b.x), Element::max(a.y, b.y), Element::max(a.z, b.z), Element::max(a.w, b.w)};
}

}  // namespace unisono
