#pragma once
/// What a graph that cannot be is refused with.

#include <functional>
#include <string>

#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::test {

/// The text of the UserError, or "none".
inline std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

inline std::string refusal(const std::string& text) {
  return refusal([&] { parse(text); });
}

}  // namespace unisono::test
