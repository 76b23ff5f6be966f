#pragma once
/// Files of the source tree that tests read.

#include <string>
#include <string_view>

namespace unisono::test {

/// Absolute path of a file or folder of the source tree, such as tests/golden. The root is compiled into one source
/// alone: the objects of tests are the same in every clone, and a compiler cache serves them.
std::string source_path(std::string_view relative);

}  // namespace unisono::test
