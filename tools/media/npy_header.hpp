#pragma once
/// The header of a .npy file: a Python literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::media {

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Parses the dictionary, in the part of Python's syntax that NumPy writes: the three keys in any order, either kind of
/// quotes, blanks anywhere, a comma at the end. Throws UserError that quotes the place; `name` is the file's.
NpyHeader parse_npy_header(std::string_view text, std::string_view name);

/// The dictionary as NumPy writes it.
std::string print_npy_header(const NpyHeader& header);

}  // namespace unisono::media
