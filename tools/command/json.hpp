#pragma once
/// JSON as the command prints it.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "support/printable.hpp"

namespace unisono::command {

/// Indented, with a newline at the end; fit for a terminal. File names need not be UTF-8: what is not gets the
/// replacement character.
inline std::string dump(const nlohmann::json& json) {
  return support::printable_json(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)) + "\n";
}

/// What went wrong, without the library's "[json.exception.…]" before it.
inline std::string message(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t bracket = text.find("] ");
  return std::string(bracket == std::string_view::npos ? text : text.substr(bracket + 2));
}

}  // namespace unisono::command
