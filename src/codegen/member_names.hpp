#pragma once
/// Names of a struct's members in C, for what callers of emitted kernels give.

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::codegen {

/// Names in capitals are those of macros (NULL, INFINITY), which no member can have: whether it is one of two letters
/// or more without small ones, or another that headers of C define.
bool is_macro(std::string_view name);

class MemberNames {
 public:
  /// `own`: members that the struct has besides.
  explicit MemberNames(const std::vector<std::string_view>& own) : taken_(own.begin(), own.end()) {}

  /// The name itself, if no other member has it and C and C++ know it as nothing else; or one with "_" behind it, or
  /// with `suffix` ("_operand").
  std::string add(std::string_view name, std::string_view suffix);

 private:
  std::set<std::string, std::less<>> taken_;
};

}  // namespace unisono::codegen
