// Where an epilogue writes a slice beside its own output: upsampled images, and a head's product.
#pragma once
#include "unisono/epilogue/sm90_epilogue.cuh"

namespace unisono {

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_main(const u8* buffer, const At& at, int m, int slice) const {
  if constexpr (!Head::kOnly) store_slice(output_map(at), buffer, at, m, slice);
#pragma unroll
  for (int i = 0; i < Resample::kCopies; ++i) store_slice(further[i], buffer, at, m, slice);
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::begin_head(HeadTile& head, const At& at) const {
  if constexpr (Head::kEights > 0) head.begin(*head_params, at.image, geometry.channels, thread & 31);
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::multiply_by_head(HeadTile& head, const u8* buffer, const At& at, int m,
                                                                int slice) const {
  if constexpr (Head::kEights > 0) {
    const auto& params = *head_params;
    if (slice == 0) head.open();
    head.add(params, buffer, at.first_channel + slice, geometry.channels, thread & 31);
    if (slice == kN - kSlice) head.store(params, at, geometry.rows, m, thread & 31);
  }
}

}  // namespace unisono
