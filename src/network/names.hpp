#pragma once
/// How errors and reports name things.

#include <string>

#include "unisono/network.hpp"

namespace unisono::network {

/// "conv2d 'down.0.0'": the operator and its node.
std::string where(const Operator& op);

/// Throws UserError for a kind that only the library writes, while it makes a network ready.
void check_is_users(const Operator& op);

}  // namespace unisono::network
