#pragma once
/// How a kernel calls user functions that have vector forms.

#include <string>
#include <string_view>

#include "plan/epilogue.hpp"

namespace unisono::plan {

/// The widest form that calls of a general epilogue have; 1: they are of single elements.
int widest_call(const Epilogue& epilogue);

/// A line for `unisono explain`, "functions: gain: 8 channels a call, …"; empty where no function has vector forms.
/// `together`: elements that a lane has side by side; `where`: why so many.
std::string describe_calls(const Epilogue& epilogue, int together, std::string_view where);

}  // namespace unisono::plan
