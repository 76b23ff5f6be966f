#pragma once
/// NumPy's .npy files (versions 1, 2 and 3 of the format: numpy.lib.format).

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coda/tensor.hpp"
#include "media/file.hpp"

namespace coda::media {

/// Element types of a .npy file that Coda reads and writes, all little endian.
enum class ElementType : std::uint8_t { f16, f32, f64, u8, i32, i64, boolean };

std::size_t size_of(ElementType type);
/// NumPy's name: "float32", "bool", …
std::string_view to_string(ElementType type);

/// A dense tensor, row-major.
struct Array {
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;  ///< element_count(shape)·size_of(type)
};

/// Decodes a .npy file. Fortran order is turned into C order; bytes of a bool other than 0 become 1. `name` is used in
/// messages. Throws UserError for other element types, big endian, damage, missing or surplus data, and beyond the
/// limits.
Array decode_npy(std::span<const std::uint8_t> file, std::string_view name, const Limits& limits = {});
Array read_npy(const std::filesystem::path& path, const Limits& limits = {});

/// The array as a .npy file, version 1.0 (or 2.0 where the header needs it), data at a multiple of 64 bytes.
std::vector<std::uint8_t> encode_npy(const Array& array);
void write_npy(const std::filesystem::path& path, const Array& array);

/// The elements as `dtype` (f64, f32, f16, bf16, i32, bool, …): rounded to nearest even for a floating-point dtype;
/// x != 0 for bool. Throws UserError for i32 where an element is no whole number within its range. `name` is used in
/// messages.
std::vector<std::uint8_t> convert(const Array& array, DType dtype, std::string_view name);

/// A dense tensor as an array; dtypes that NumPy lacks (bf16, tf32) become f32, which holds them exactly.
Array to_array(const ConstTensorView& tensor);

}  // namespace coda::media
