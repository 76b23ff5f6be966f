#pragma once
/// The shape that a reshape gives.

#include <string>

#include "unisono/network.hpp"

namespace unisono::network {

/// The shape of `x` reshaped as the operator says. Throws UserError if the elements do not fit; `where` names the node.
Shape reshaped(const Shape& x, const operators::Reshape& r, const std::string& where);

}  // namespace unisono::network
