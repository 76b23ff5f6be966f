#include "codegen/inlined.hpp"

#include <gtest/gtest.h>

#include <array>

#include "unisono/error.hpp"

namespace unisono::codegen {
namespace {

constexpr std::array headers{Header{"unisono/a.hpp", "#pragma once\n#include \"unisono/b.hpp\"\nint a;\n"},
                             Header{"unisono/b.hpp", "#pragma once\nint b;\n"}};

TEST(Inlined, PutsEachHeaderInOnce) {
  EXPECT_EQ(
      inlined("#include <unisono/a.hpp>\n#include <vector>\n#include \"unisono/b.hpp\"\nint c;\n", headers),
      "// ---- unisono/a.hpp\n// ---- unisono/b.hpp\nint b;\n// ---- end of unisono/b.hpp\nint a;\n// ---- end of "
      "unisono/a.hpp\n#include <vector>\n// ---- above: unisono/b.hpp\nint c;\n");
}

TEST(Inlined, RefusesAHeaderThatIsNone) {
  EXPECT_THROW(inlined("#include \"unisono/nowhere.hpp\"\n", headers), InternalError);
}

TEST(Inlined, LeavesNoHeaderOfOursOut) {
  std::string all;
  for (const Header& h : device_headers()) all += std::string("#include \"") + std::string(h.name) + "\"\n";
  for (const Header& h : emitted_headers()) all += std::string("#include \"") + std::string(h.name) + "\"\n";
  const std::string text = inlined(all, emitted_headers());
  EXPECT_EQ(text.find("#include \"unisono/"), text.npos);
  for (const Header& h : device_headers())
    EXPECT_NE(text.find("// ---- end of " + std::string(h.name) + "\n"), text.npos) << h.name;
}

TEST(Renamed, LeavesLongerNamesAlone) {
  EXPECT_EQ(renamed("a::b, aa::b, a::a::c", "a::", "x::"), "x::b, aa::b, x::x::c");
  EXPECT_EQ(renamed("namespace a; namespace ab; namespace a::b", "namespace a", "namespace x"),
            "namespace x; namespace ab; namespace x::b");
}

TEST(Replaced, GoesOnBehindWhatItPutIn) { EXPECT_EQ(replaced("aXa", "a", "aa"), "aaXaa"); }

}  // namespace
}  // namespace unisono::codegen
