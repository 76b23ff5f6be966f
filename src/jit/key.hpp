#pragma once
/// What a binary depends on, as 32 hexadecimal digits.

#include <string>

#include "jit/compiler.hpp"

namespace unisono::jit {

/// The program's hash: of the source, the headers' names and texts, the options and the architecture.
std::string program_key(const Request& request);

/// The hash of the headers alone: two versions of Unisono differ in it where their device code does.
std::string headers_key(const Request& request);

/// The binary's hash: of the program and of the compiler (identity, options and environment).
std::string binary_key(const std::string& program, Compiler& compiler, const Request& request);

}  // namespace unisono::jit
