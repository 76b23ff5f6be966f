// The layout, in bytes, of the one parameter of sm90/conv_fprop.cuh. The host fills the parameter by it, and the
// kernel's struct (KernelParams of tile/resample.cuh) is checked against it. No device code.
#pragma once
#include "unisono/params/params.cuh"

namespace unisono::params_layout {

// Maps that the stores take after ConvParams: those of the phases of the upsampled tensor, the first of which is
// ConvParams::output where nothing else is stored (`only`); and the PooledOutput, in the room of one.
constexpr int upsampled_maps(bool upsampled, bool only) { return upsampled ? only ? 3 : 4 : 0; }
constexpr int resampled_maps(bool upsampled, bool only, bool pooled) {
  return upsampled_maps(upsampled, only) + (pooled ? 1 : 0);
}
// The same of an output by its phases (tile/layout.cuh): phases 1 to 3 of the main store, then of the second.
constexpr int kPhaseMaps = 6;

// Fields are those of a visitor, of 8 bytes each; a struct without any has a size too.
constexpr u64 bytes_of_fields(u64 fields) { return fields == 0 ? 1 : 8 * fields; }
constexpr u64 fields_of_bytes(u64 bytes) { return bytes / 8; }
constexpr u64 up_to_64(u64 bytes) { return (bytes + 63) / 64 * 64; }

// From the beginning of the parameter.
struct Layout {
  u64 maps, fields, bytes;
};
// alignas(64) struct { ConvParams; maps; fields }. Maps are those of the stores above, then of operands that TMA loads.
constexpr Layout layout(u64 maps, u64 fields) {
  Layout l{};
  l.maps = sizeof(ConvParams);
  l.fields = l.maps + maps * sizeof(TensorMap);
  l.bytes = up_to_64(l.fields + bytes_of_fields(fields));
  return l;
}
constexpr u64 map_offset(u64 i) { return sizeof(ConvParams) + i * sizeof(TensorMap); }

}  // namespace unisono::params_layout
