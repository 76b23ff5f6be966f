#pragma once
/// Headers in memory have no folder to stand in.

#include <span>
#include <string>

#include "jit/request.hpp"

namespace unisono::jit {

/// The header's text with `#include "b.cuh"` written as `#include "folder/b.cuh"` where the header is "folder/a.cuh"
/// and "folder/b.cuh" is among `all`: what a compiler does with files. Lines keep their numbers.
std::string with_full_names(const Header& header, std::span<const Header> all);

}  // namespace unisono::jit
