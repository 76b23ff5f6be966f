#pragma once
/// What a user function must say of itself, and functions of several results.

#include <vector>

#include "unisono/graph.hpp"

namespace unisono::ir {

/// Throws UserError for a name that is none, an arity or number of results out of range, types of more parameters than
/// there are, captures without a name, and for a function that can be called nowhere.
void check_function(const UserFunction& function);

/// The functions of one result each that graphs call in place of one of several results: name_0, name_1, ….
std::vector<UserFunction> result_functions(const UserFunction& function);

}  // namespace unisono::ir
