#pragma once
/// NumPy's .npy files (versions 1, 2 and 3 of the format: numpy.lib.format).

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "media/file.hpp"
#include "unisono/tensor.hpp"

namespace unisono::media {

/// NumPy's name of an element type: "float32", "bool", …; "bfloat16" for that which NumPy lacks.
std::string_view numpy_name(DType dtype);

/// A dense tensor, row-major.
struct Array {
  DType type = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;  ///< element_count(shape)·size_of(type)
};

/// "(2, 3)", as NumPy writes shapes.
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Decodes a .npy file of float16, float32, float64, bool or integers of 8 to 64 bits. Fortran order is turned into C
/// order; bytes of a bool other than 0 become 1. `name` is used in messages. Throws UserError for other element types,
/// big endian, damage, missing or surplus data, and beyond the limits.
Array decode_npy(std::span<const std::uint8_t> file, std::string_view name, const Limits& limits = {});
Array read_npy(const std::filesystem::path& path, const Limits& limits = {});

/// The array as a .npy file, version 1.0 (or 2.0 where the header needs it), data at a multiple of 64 bytes.
std::vector<std::uint8_t> encode_npy(const Array& array);
void write_npy(const std::filesystem::path& path, const Array& array);

/// A dense tensor as an array; dtypes that NumPy lacks (bf16, tf32) become f32, which holds them exactly.
Array to_array(const ConstTensorView& tensor);

}  // namespace unisono::media
