#pragma once
/// What every self-checking program has: memory that is filled and compared.

#include <string_view>

namespace unisono::families::cutlass_evt {

std::string_view self_check_helpers();

}  // namespace unisono::families::cutlass_evt
