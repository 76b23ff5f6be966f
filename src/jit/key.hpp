#pragma once
/// What a binary depends on, as 32 hexadecimal digits.

#include <string>

#include "jit/compiler.hpp"

namespace unisono::jit {

/// Of the source, the headers' names and texts, the options and the architecture: what the program is.
std::string program_key(const Request& request);

/// Of the program and of the compiler (identity, options and environment): what the binary is.
std::string binary_key(const std::string& program, Compiler& compiler, const Request& request);

}  // namespace unisono::jit
