#include <functional>

#include "fixture.hpp"
#include "support/says.hpp"

namespace unisono::jit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PacksTest : public JitTest {
 protected:
  void SetUp() override {
    JitTest::SetUp();
    pack = root / "pack";
    Settings s = settings();
    s.cache = pack;
    packed = Jit(s, compiler).compile(request());
    compiler->count = 0;
  }
  Settings with_pack() {
    Settings s = settings();
    s.packs = {root / "absent", pack};
    return s;
  }

  fs::path pack;
  Binary packed;
};

TEST_F(PacksTest, AreSearchedBeforeTheCache) {
  jit().compile(request());
  const Binary b = Jit(with_pack(), compiler).compile(request());
  EXPECT_TRUE(b.cached);
  EXPECT_EQ(b.entry, packed.entry);
}

TEST_F(PacksTest, WhatTheyLackGoesToTheCache) {
  const Binary b = Jit(with_pack(), compiler).compile(request("kernel k other"));
  EXPECT_FALSE(b.cached);
  EXPECT_EQ(b.entry.parent_path(), cache);
  EXPECT_EQ(count_in(pack), 3u);  // the entry, the folder for those in the making, and the marker
}

TEST_F(PacksTest, AreUsedWithoutCache) {
  Settings s = with_pack();
  s.use_cache = false;
  EXPECT_TRUE(Jit(s, compiler).compile(request()).cached);
  EXPECT_EQ(compiler->count, 0);
}

TEST_F(PacksTest, BrokenEntryIsPassedOverWithAWarningAndStays) {
  fs::resize_file(packed.entry / cubin_file, 10);
  Jit jit(with_pack(), compiler);
  EXPECT_EQ(jit.compile(request()).cubin, expected(request()));
  EXPECT_EQ(fs::file_size(packed.entry / cubin_file), 10u);
  jit.compile(request());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr(packed.entry.string()));
  EXPECT_THAT(warnings[0], HasSubstr("10 bytes"));
}

TEST_F(PacksTest, BrokenDescriptionIsPassedOverWithAWarning) {
  for (const auto& damage : std::vector<std::function<void(const fs::path&)>>{
           [](const fs::path& entry) { fs::resize_file(entry / info_file, 20); },
           [](const fs::path& entry) { fs::remove(entry / info_file); },
           [](const fs::path& entry) { fs::rename(entry, entry.parent_path() / std::string(32, 'a')); }}) {
    warnings.clear();
    damage(packed.entry);
    EXPECT_EQ(Jit(with_pack(), compiler).compile(request()).cubin, expected(request()));
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("the pack's entry " + pack.string()));
    fs::remove_all(pack);
    Settings s = settings();
    s.cache = pack;
    packed = Jit(s, compiler).compile(request());
  }
}

TEST_F(PacksTest, OfOtherDeviceCodeSaySo) {
  const std::vector<Header> headers{{"unisono/params/other.cuh", "struct Parameters { int more; };"}};
  Request other = request();
  other.headers = headers;
  EXPECT_FALSE(Jit(with_pack(), compiler).compile(other).cached);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0],
              Says("the packs' 1 kernels (" + pack.string() + ") … another version of Unisono, and are not used"));
  const auto none = std::make_shared<testing::FakeCompiler>();
  none->missing = true;
  Settings s = with_pack();
  s.use_cache = false;
  try {
    Jit(s, none).compile(other);
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("no fake compiler was found"), HasSubstr("another version of Unisono")));
  }
}

TEST_F(PacksTest, ServeMachinesWithoutCompiler) {
  const auto none = std::make_shared<testing::FakeCompiler>();
  none->missing = true;
  const Binary b = Jit(with_pack(), none).compile(request());
  EXPECT_TRUE(b.cached);
  EXPECT_EQ(b.key, packed.key);
  const std::vector<Request> two{request(), request()};
  EXPECT_EQ(Jit(with_pack(), none).compile(two)[1].cubin, packed.cubin);
  try {
    Jit(with_pack(), none).compile(request("kernel k other"));
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), HasSubstr("no fake compiler was found; 'title' is not among the 1 kernels of the packs"));
  }
  EXPECT_TRUE(warnings.empty());
}

TEST_F(PacksTest, KernelsMadeWithFlagsFromTheEnvironmentServeNobodyElse) {
  const auto flags = std::make_shared<testing::FakeCompiler>();
  flags->variables = {"NVCC_APPEND_FLAGS=-G"};
  Settings s = settings();
  s.cache = pack;
  EXPECT_FALSE(Jit(s, flags).compile(request("kernel k other")).cached);
  EXPECT_TRUE(Jit(s, flags).compile(request("kernel k other")).cached);
  EXPECT_FALSE(Jit(with_pack(), compiler).compile(request("kernel k other")).cached);
}

TEST_F(PacksTest, CacheServesMachinesThatHaveLostTheirCompiler) {
  jit().compile(request("kernel k own"));
  compiler->missing = true;
  EXPECT_TRUE(jit().compile(request("kernel k own")).cached);
}

}  // namespace
}  // namespace unisono::jit
