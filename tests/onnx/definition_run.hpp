#pragma once
/// ONNX's node tests against the float64 definitions of its operators.

#include <filesystem>
#include <string>
#include <vector>

namespace unisono::test {

/// Evaluates every test all of whose operators have a definition, and compares with the outputs that ONNX gives. Fails
/// for a difference, for a test that is refused and that `exceptions` has no pattern for, for an operator of the
/// importer without a definition, for one with a definition that no test shows to be right and that `exceptions` does
/// not name (as operator:NAME), and for a line there that nothing needs.
bool check_definitions(const std::vector<std::filesystem::path>& folders, const std::string& exceptions,
                       const std::string& only);

}  // namespace unisono::test
