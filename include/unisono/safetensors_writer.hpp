#pragma once
/// Writing files in the safetensors format (unisono/safetensors.hpp reads them).

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "unisono/dtype.hpp"

namespace unisono {

/// A tensor to be written: dense, row-major.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> elements;
};

/// Writes the tensors, in order, and "__metadata__". An earlier file is replaced completely or not at all. Throws
/// UserError if the file cannot be written, for duplicate names, and for elements that do not fit their shape.
void save_safetensors(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace unisono
