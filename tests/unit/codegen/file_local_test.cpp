#include "codegen/file_local.hpp"

#include <gtest/gtest.h>

namespace unisono::codegen {
namespace {

TEST(InInlineNamespace, WrapsDefinitions) {
  EXPECT_EQ(in_inline_namespace("int f();\nint g();", "own"),
            "inline namespace own {\nint f();\nint g();\n}  // namespace own\n");
  EXPECT_EQ(in_inline_namespace("", "own"), "");
}

TEST(InInlineNamespace, IncludesInterruptIt) {
  EXPECT_EQ(
      in_inline_namespace("#include <a>\n\n # include \"b\"\nint f() {\n}\n#include <c>\n", "own"),
      "#include <a>\n\n # include \"b\"\ninline namespace own {\nint f() {\n}\n}  // namespace own\n#include <c>\n");
}

// A table, a comment, a literal, a raw one: `#include` there is none, or may not be taken out
TEST(InInlineNamespace, LeavesIncludesInBracesCommentsAndLiterals) {
  for (const char* text : {"int t[] = {\n#include \"t\"\n};\n", "/*\n#include \"t\"\n*/\n", "// {\nint f();\n",
                           "auto s = R\"x(\n#include \"t\"\n)\" )x\";\n"})
    EXPECT_EQ(in_inline_namespace(text, "own"),
              "inline namespace own {\n" + std::string(text) + "}  // namespace own\n");
}

TEST(InInlineNamespace, BracesOfCommentsAndLiteralsAreNone) {
  const std::string close = "}  // namespace own\n", open = "inline namespace own {\n";
  for (const char* line :
       {"char c = '{', d = '\\'';\n", "auto s = \"{\\\"{\";\n", "int i = 1'000; // {\n", "/* { */\n"})
    EXPECT_EQ(in_inline_namespace(line + std::string("#include <a>\nint f();\n"), "own"),
              open + line + close + "#include <a>\n" + open + "int f();\n" + close);
}

}  // namespace
}  // namespace unisono::codegen
