#include "jit/full_names.hpp"

#include <gtest/gtest.h>

namespace unisono::jit {
namespace {

std::string rewritten(std::string_view text) {
  const Header all[] = {{"unisono/a.cuh", text}, {"unisono/b.cuh", ""}, {"unisono/deep/c.cuh", ""}, {"d.cuh", ""}};
  return with_full_names(all[0], all);
}

TEST(FullNames, NeighboursGetTheirFolder) {
  EXPECT_EQ(rewritten("#include \"b.cuh\"\nint x;\n"), "#include \"unisono/b.cuh\"\nint x;\n");
  EXPECT_EQ(rewritten("  #  include \"deep/c.cuh\"  // why"), "  #  include \"unisono/deep/c.cuh\"  // why");
  EXPECT_EQ(rewritten("#include \"../d.cuh\""), "#include \"d.cuh\"");
}

TEST(FullNames, AllElseStays) {
  for (const char* text :
       {"", "\n", "int x;", "#include <b.cuh>\n", "#include \"unisono/b.cuh\"\n", "#include \"absent.cuh\"\n",
        "// #include \"b.cuh\"\n", "#include \"b.cuh\n", "#define include \"b.cuh\"\n", "#\n"}) {
    EXPECT_EQ(rewritten(text), text);
  }
}

}  // namespace
}  // namespace unisono::jit
