#pragma once
/// Words of the embedded tables, schemas.txt and function_bodies.txt.

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/error.hpp"

namespace unisono::network::onnx_import {

[[noreturn]] inline void table_is_damaged(std::string_view word) {
  throw InternalError("a table of ONNX's operators has '" + std::string(word) + "'");
}

template <class T>
T table_number(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) table_is_damaged(text);
  return value;
}

/// The parts between the marks, but for empty ones.
inline std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// What comes before and after the first of the marks.
inline std::pair<std::string_view, std::string_view> halves(std::string_view word, std::string_view marks) {
  const std::size_t place = word.find_first_of(marks);
  if (place == std::string_view::npos) table_is_damaged(word);
  return {word.substr(0, place), word.substr(place + 1)};
}

/// AttributeProto's type for the table's code of it, such as 7 for "i*"; 0 for an unknown one.
int attribute_type(std::string_view code);

}  // namespace unisono::network::onnx_import
