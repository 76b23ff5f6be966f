// What marks a folder as one of kernels, and what stays in one that is not.
#include "jit/kernel_folder.hpp"

#include "fixture.hpp"
#include "jit/maintenance.hpp"

namespace unisono::jit {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KernelFolderTest : public JitTest {
 protected:
  static std::string refusal(const std::function<void()>& act) {
    try {
      act();
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(KernelFolderTest, AnEmptyOrAbsentFolderBecomesOne) {
  EXPECT_EQ(why_foreign(cache), "");
  EXPECT_FALSE(fs::exists(cache));
  fs::create_directory(cache);
  jit().compile(request());
  EXPECT_TRUE(is_marked(cache));
  EXPECT_THAT(contents(cache / marker_file), HasSubstr("unisono cache prune"));
  EXPECT_EQ(jit().compile(request()).cached, true);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(KernelFolderTest, WhatSomebodyElseKeepsIsNeverTouched) {
  for (const char* name : {making_folder, broken_folder, failed_folder}) {
    fs::create_directories(cache / name);
    overwrite(cache / name / "thesis", "x");
    EXPECT_THAT(why_foreign(cache), HasSubstr(std::string(name) + "/thesis"));
    EXPECT_THAT(refusal([&] { prune_entries(cache, {.all = true}); }), HasSubstr("folder of compiled kernels"));
    EXPECT_THAT(refusal([&] { remove_workshops(cache); }), HasSubstr("thesis"));
    EXPECT_THAT(refusal([&] { jit(); }), HasSubstr("thesis"));
    EXPECT_THAT(refusal([&] { claim(cache); }), HasSubstr("thesis"));
    EXPECT_EQ(contents(cache / name / "thesis"), "x");
    fs::remove_all(cache);
  }
  fs::create_directories(cache / std::string(32, 'a'));  // the name of an entry, but none
  EXPECT_THAT(why_foreign(cache), HasSubstr(std::string(32, 'a')));
}

TEST_F(KernelFolderTest, OfTheEnvironmentIsAWarningAndNoCache) {
  fs::create_directories(cache / making_folder);
  overwrite(cache / making_folder / "thesis", "x");
  Settings s = settings();
  s.cache.clear();
  ::setenv("UNISONO_CACHE_DIR", cache.c_str(), 1);
  Jit jit(s, compiler);
  ::unsetenv("UNISONO_CACHE_DIR");
  EXPECT_EQ(jit.compile(request()).cubin, expected(request()));
  EXPECT_TRUE(jit.compile(request()).entry.empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("thesis"));
  EXPECT_EQ(count_in(cache), 1u);
}

TEST_F(KernelFolderTest, OneOfBeforeTheMarkerIsKnownByWhatIsInIt) {
  jit().compile(request());
  EXPECT_THROW(jit().compile(request("broken")), CompileError);
  jit().compile(request("kernel k 2"));
  fs::remove(cache / marker_file);
  EXPECT_EQ(why_foreign(cache), "");
  EXPECT_TRUE(jit().compile(request()).cached);
  EXPECT_FALSE(is_marked(cache));  // nothing was written
  EXPECT_FALSE(jit().compile(request("kernel k 3")).cached);
  EXPECT_TRUE(is_marked(cache));
  fs::remove(cache / marker_file);
  EXPECT_EQ(prune_entries(cache, {.all = true}).removed.size(), 3u);
}

TEST_F(KernelFolderTest, OneOfAnotherVersionIsLeftAlone) {
  jit().compile(request());
  overwrite(cache / marker_file, "Unisono's compiled kernels, format 2\n");
  EXPECT_THAT(why_foreign(cache), HasSubstr("another version"));
  EXPECT_THROW(prune_entries(cache, {.all = true}), UserError);
}

TEST_F(KernelFolderTest, InAMarkedOneToo) {
  EXPECT_THROW(jit().compile(request("broken")), CompileError);
  for (const char* name : {making_folder, broken_folder, failed_folder}) {
    fs::create_directories(cache / name);
    overwrite(cache / name / "thesis", "x");
  }
  const Pruned pruned = prune_entries(cache, {.all = true});
  EXPECT_EQ(pruned.leftovers, 1u);
  remove_workshops(cache);
  for (const char* name : {making_folder, broken_folder, failed_folder})
    EXPECT_EQ(contents(cache / name / "thesis"), "x");
}

TEST_F(KernelFolderTest, WorkshopsGoWhenTheyAreEmpty) {
  EXPECT_THROW(jit().compile(request("broken")), CompileError);
  jit().compile(request());
  remove_workshops(cache);
  EXPECT_EQ(count_in(cache), 2u);  // the entry and the marker
}

}  // namespace
}  // namespace unisono::jit
