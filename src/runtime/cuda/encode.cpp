#include "runtime/cuda/encode.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>

#include "runtime/cuda/driver.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

CUtensorMapSwizzle swizzle(int row_bytes) {
  return row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : row_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                           : CU_TENSOR_MAP_SWIZZLE_NONE;
}

// The bytes are never interpreted but for the filling of what lies outside, which is zero in any type. f32 stays as it
// is: the tensor cores cut it off.
CUtensorMap encoded(const families::MapShape& m, const void* base, DType element, const char* what) {
  if (m.element_bytes != 2 && m.element_bytes != 4)
    throw InternalError(fmt::format("no tensor map of elements of {} bytes", m.element_bytes));
  const auto type = m.element_bytes == 4    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                    : element == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                            : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const auto rank = static_cast<cuuint32_t>(m.rank);
  CUtensorMap map{};  // by itself: newer toolkits align it to 128 bytes, which a kernel's parameter need not be
  const auto extents =
      std::to_array<cuuint64_t>({m.extents[0], m.extents[1], m.extents[2], m.extents[3], m.extents[4]});
  const auto strides = std::to_array<cuuint64_t>({m.strides[0], m.strides[1], m.strides[2], m.strides[3]});
  void* const address = const_cast<void*>(base);
  const CUresult result =
      m.im2col
          ? driver().cuTensorMapEncodeIm2col(&map, type, rank, address, extents.data(), strides.data(), m.lower.data(),
                                             m.upper.data(), m.channels, m.pixels, m.steps.data(),
                                             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(m.swizzle_bytes),
                                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
          : driver().cuTensorMapEncodeTiled(&map, type, rank, address, extents.data(), strides.data(), m.box.data(),
                                            m.steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(m.swizzle_bytes),
                                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return map;
  check(result, fmt::format("describing {} to TMA ({} of extents {}, strides {}, box {}{})", what,
                            m.im2col ? "im2col" : "tiled", m.extents, m.strides, m.box,
                            m.im2col ? fmt::format(", corners {} to {}, {} channels of {} pixels", m.lower, m.upper,
                                                   m.channels, m.pixels)
                                     : ""));
  return map;
}

}  // namespace

void encode_maps(std::span<const families::Parameter::Map> maps, std::span<std::byte> parameter) {
  for (const families::Parameter::Map& m : maps) {
    const CUtensorMap map = encoded(m.shape, m.base, m.element, m.what);
    std::memcpy(parameter.subspan(m.offset, sizeof map).data(), &map, sizeof map);
  }
}

void move_site(families::ParameterBytes& parameters, const families::Site& site, std::uint64_t bits) {
  std::memcpy(parameters.bytes.data() + site.offset, &bits, sizeof bits);
}

void move_site(families::ParameterBytes& parameters, const families::Site& site, const void* data) {
  const void* const to = static_cast<const std::byte*>(data) + site.ahead;
  if (site.kind == families::Site::Kind::word) return move_site(parameters, site, reinterpret_cast<std::uintptr_t>(to));
  std::byte* const place = parameters.bytes.data() + site.offset;
  CUtensorMap map{};  // by itself, as where it is encoded
  std::memcpy(&map, place, sizeof map);
  check(driver().cuTensorMapReplaceAddress(&map, const_cast<void*>(to)), "moving a tensor map to another address");
  std::memcpy(place, &map, sizeof map);
}

}  // namespace unisono::cuda
