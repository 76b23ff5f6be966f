#include "support/sources.hpp"

namespace unisono::test {

std::string source_path(std::string_view relative) { return std::string(UNISONO_SOURCES "/").append(relative); }

}  // namespace unisono::test
