#pragma once
/// JSON as the command prints it.

#include <nlohmann/json.hpp>
#include <string>

namespace coda::command {

/// Indented, with a newline at the end. File names need not be UTF-8: what is not gets the replacement character.
inline std::string dump(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace coda::command
