#pragma once
/// The parameter of these kernels, as kernels/unisono/params/params.cuh lays it out.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "families/interface/parameters.hpp"
#include "plan/as_convolution.hpp"
#include "plan/expected.hpp"
#include "unisono/params/params.cuh"
#include "unisono/params/sm90_kernel_params.cuh"

namespace unisono::families::sm90 {

inline constexpr std::size_t most_fields = 384;  ///< a visitor's: with them a parameter stays below 4 KB

/// ConvParams, and behind it what else the plan has, and the visitor's fields of 8 bytes each.
struct alignas(64) Parameters {
  ConvParams conv;
  std::array<std::uint64_t, most_fields> fields;

  Parameters() { std::memset(static_cast<void*>(this), 0, sizeof *this); }  // what lies between members, too
};

static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64, "as the driver's CUtensorMap");
static_assert(sizeof(Entry) == 16, "an entry is read and written as one");
static_assert(offsetof(Parameters, fields) == sizeof(ConvParams), "what is behind ConvParams follows at once");
static_assert(sizeof(ConvParams) % alignof(TensorMap) == 0);
static_assert(sizeof(Parameters) <= sizeof(ParameterBytes), "what every driver takes as a kernel's parameters");

/// What stands between ConvParams and the visitor's fields, see kernels/unisono/params/sm90_kernel_params.cuh.
struct Between {
  std::size_t maps = 0;                         ///< further maps
  std::optional<std::size_t> head_fields = {};  ///< those of a head's visitor; absent: there is no head

  /// The parameter of a kernel whose visitor has so many fields.
  constexpr params_layout::Layout layout(std::size_t fields = 0) const {
    return params_layout::layout({maps, head_fields.has_value(), head_fields.value_or(0), fields});
  }
  constexpr std::size_t bytes() const { return layout().fields - sizeof(ConvParams); }
};

/// Bytes that a kernel with so many fields declares.
constexpr std::size_t parameter_bytes(std::size_t fields, const Between& between = {}) {
  return between.layout(fields).bytes;
}

/// The same, checked: refuses more than there is room for.
plan::Expected<std::size_t> checked_parameter_bytes(std::size_t fields, const Between& between = {});

/// What does not depend on how a tile is loaded.
ConvGeometry common_geometry(const plan::ConvTask& task);

/// What every launch reads and writes: the second store's memory and the visitor's fields.
void put_common(Parameter& to, const Tensors& tensors, const Between& between = {});

}  // namespace unisono::families::sm90
