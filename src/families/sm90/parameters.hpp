#pragma once
/// The parameter of these kernels, as kernels/unisono/params/params.cuh lays it out.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

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

/// Bytes that a kernel with so many fields declares, behind so many further maps
/// (kernels/unisono/params/sm90_kernel_params.cuh).
constexpr std::size_t parameter_bytes(std::size_t fields, std::size_t maps = 0) {
  return params_layout::layout(maps, fields).bytes;
}

/// The same, checked: refuses more than there is room for.
plan::Expected<std::size_t> checked_parameter_bytes(std::size_t fields, std::size_t maps = 0);

/// What does not depend on how a tile is loaded.
ConvGeometry common_geometry(const plan::ConvTask& task);

/// What every launch reads and writes: the second store's memory and the visitor's fields.
void put_common(Parameter& to, const Tensors& tensors, std::size_t maps = 0);

}  // namespace unisono::families::sm90
