#pragma once
/// Files of the safetensors format written by hand.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::tests {

/// Length, header and `data` bytes that count up.
inline std::vector<std::byte> safetensors_file(std::string_view header, std::size_t data) {
  std::vector<std::byte> file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<std::byte>(header.size() >> (8 * i)));
  for (const char c : header) file.push_back(static_cast<std::byte>(c));
  for (std::size_t i = 0; i < data; ++i) file.push_back(static_cast<std::byte>(i));
  return file;
}

}  // namespace unisono::tests
