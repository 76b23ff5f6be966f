#pragma once
/// Names of the constants that may be parameters.

#include <map>
#include <string>

#include "unisono/network.hpp"

namespace unisono::autodiff {

/// By constant of f32 with a name: the name by which it is known. Where several constants have one name, those are
/// "name@operator", by the first that reads them; a constant that this does not tell apart has none.
std::map<TensorId, std::string> parameter_names(const Network& network);

}  // namespace unisono::autodiff
