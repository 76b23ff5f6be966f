#pragma once
/// The parameter of these kernels, as kernels/unisono/params/params.cuh lays it out.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "families/interface/parameters.hpp"
#include "plan/as_convolution.hpp"
#include "unisono/params/params.cuh"

namespace unisono::families::sm90 {

inline constexpr std::size_t most_fields = 384;   ///< of a visitor: with them a parameter stays below 4 KB
inline constexpr std::size_t fields_of_map = 16;  ///< in whose place a further map stands

/// ConvParams, and behind it further maps, if the plan has any, and the visitor's fields of 8 bytes each.
struct alignas(64) Parameters {
  ConvParams conv;
  std::array<std::uint64_t, most_fields> fields;

  Parameters() { std::memset(static_cast<void*>(this), 0, sizeof *this); }  // what lies between members, too
};

static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64, "as the driver's CUtensorMap");
static_assert(sizeof(Entry) == 16, "an entry is read and written as one");
static_assert(offsetof(Parameters, fields) == sizeof(ConvParams), "what is behind ConvParams follows at once");
static_assert(sizeof(TensorMap) == 8 * fields_of_map && sizeof(ConvParams) % alignof(TensorMap) == 0);
static_assert(sizeof(Parameters) <= sizeof(ParameterBytes), "what every driver takes as a kernel's parameters");

/// Bytes that a kernel with so many fields and further maps declares: alignas(64) struct { ConvParams; maps; struct {
/// fields }; }.
constexpr std::size_t parameter_bytes(std::size_t fields, std::size_t maps = 0) {
  const std::size_t visitor = fields == 0 ? 1 : 8 * fields;  // an empty struct has a size too
  return (sizeof(ConvParams) + maps * sizeof(TensorMap) + visitor + 63) / 64 * 64;
}

/// The same, checked. Throws Unsupported for more fields than there is room for.
std::size_t checked_parameter_bytes(std::size_t fields, std::size_t maps = 0);

/// What does not depend on how a tile is loaded.
ConvGeometry common_geometry(const plan::ConvTask& task);

/// What the launch reads and writes beside the four maps: the second store's memory and the visitor's fields, behind so
/// many further maps.
void put_common(Parameter& to, const Tensors& tensors, std::size_t maps = 0);

}  // namespace unisono::families::sm90
