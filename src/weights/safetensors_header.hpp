#pragma once
/// The header of a safetensors file.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/safetensors.hpp"

namespace unisono::weights {

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of their offsets
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON text and checks every entry against `data_bytes`, the bytes behind the header: their number is
/// that of dtype and shape, and together they cover all bytes once. `file` is used in messages. Throws UserError.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes, const std::string& file,
                                           const SafetensorsLimits& limits);

/// The format's name of an element type: "F32". Throws UserError for a type that it does not have.
std::string_view safetensors_name(DType dtype);

}  // namespace unisono::weights
