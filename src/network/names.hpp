#pragma once
/// How errors and reports name things.

#include <string>

#include "unisono/network.hpp"

namespace unisono::network {

/// "conv2d 'down.0.0'": the operator and its node.
std::string where(const Operator& op);

}  // namespace unisono::network
