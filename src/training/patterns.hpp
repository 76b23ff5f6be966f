#pragma once
/// Patterns of names.

#include <string_view>

namespace unisono::training {

/// Whether * (any characters) and ? (one) of the pattern can stand for what the name has in their places.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace unisono::training
