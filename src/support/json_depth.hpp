#pragma once
/// How deeply JSON from a file may nest.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "unisono/error.hpp"

namespace unisono::support {

/// What Unisono writes nests less than ten deep.
inline constexpr int deepest_json = 64;

/// Parses the text of a file that anybody may have written. Throws nlohmann::json::exception for what is no JSON, and
/// UserError for what nests deeper than deepest_json: much of what is done with a value, printing it among it, takes
/// stack for every level.
inline nlohmann::json parse_json(std::string_view text, const std::string& file) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest_json)
        throw UserError("'" + file + "' nests deeper than " + std::to_string(deepest_json) +
                        " levels; no file of Unisono's does");
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return nlohmann::json::parse(text);
}

}  // namespace unisono::support
