// Kernels are taken from folders that nobody else can have written, and from nowhere else.
#include "jit/places.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "fixture.hpp"
#include "jit/maintenance.hpp"

namespace unisono::jit {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uid_t nobody = 65534;

class PlacesTest : public JitTest {
 protected:
  void SetUp() override {
    JitTest::SetUp();
    made = jit().compile(request()).entry;
    compiler->count = 0;
  }
  /// By way of the environment, as users have it.
  Binary compiled_with(const char* variable, const fs::path& folder) {
    Settings other = settings();
    other.cache = variable == std::string("UNISONO_CACHE_DIR") ? "" : root / "other";
    ::setenv(variable, folder.c_str(), 1);
    Jit jit(other, compiler);
    ::unsetenv(variable);
    return jit.compile(request());
  }
  fs::path made;
};

TEST_F(PlacesTest, CacheThatOthersMayWriteToIsAWarningAndNotUsed) {
  fs::permissions(cache, fs::perms::all);
  const Binary b = compiled_with("UNISONO_CACHE_DIR", cache);
  EXPECT_FALSE(b.cached);
  EXPECT_TRUE(b.entry.empty());
  EXPECT_EQ(compiler->count, 1);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("chmod go-w"));
  EXPECT_THAT(warnings[0], HasSubstr(cache.string()));
  EXPECT_THROW(Jit(settings(), compiler), UserError);  // one that was named
}

TEST_F(PlacesTest, CacheOfSomebodyElseIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  ASSERT_EQ(::chown(cache.c_str(), nobody, nobody), 0);
  EXPECT_FALSE(compiled_with("UNISONO_CACHE_DIR", cache).cached);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("belongs to user 65534"));
}

TEST_F(PlacesTest, PackThatOthersMayWriteToIsAWarningAndNotUsed) {
  EXPECT_TRUE(compiled_with("UNISONO_PACKS", cache).cached);
  fs::permissions(cache, fs::perms::all);
  EXPECT_FALSE(compiled_with("UNISONO_PACKS", cache).cached);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("pack is not used"));
  Settings s = settings();
  s.cache = root / "other";
  s.packs = {cache};
  EXPECT_THROW(Jit(s, compiler), UserError);
}

TEST_F(PlacesTest, WhatIsRefusedIsToldToTheDoctor) {
  fs::permissions(cache, fs::perms::all);
  ::setenv("UNISONO_CACHE_DIR", cache.c_str(), 1);
  ::setenv("UNISONO_PACKS", (cache.string() + ":" + (root / "absent").string()).c_str(), 1);
  const KernelFolders places = kernel_folders_of({});
  ::unsetenv("UNISONO_CACHE_DIR");
  ::unsetenv("UNISONO_PACKS");
  EXPECT_EQ(places.cache.folder, cache);
  EXPECT_THAT(places.cache.refused, HasSubstr("mode 777"));
  ASSERT_EQ(places.packs.size(), 1u);
  EXPECT_THAT(places.packs[0].refused, HasSubstr("mode 777"));
}

TEST_F(PlacesTest, EntriesThatAreLinksAreMadeAgain) {
  fs::rename(made, root / "elsewhere");
  fs::create_directory_symlink(root / "elsewhere", made);
  EXPECT_THAT(list_entries(cache).at(0).problem, HasSubstr("symbolic link"));
  EXPECT_FALSE(jit().compile(request()).cached);
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(made)));
  EXPECT_TRUE(jit().compile(request()).cached);
}

TEST_F(PlacesTest, FilesThatAreLinksAreNotFollowed) {
  fs::rename(made / cubin_file, root / "elsewhere");
  fs::create_symlink(root / "elsewhere", made / cubin_file);
  EXPECT_FALSE(jit().compile(request()).cached);
}

TEST_F(PlacesTest, EntriesThatOthersMayWriteToAreMadeAgain) {
  fs::permissions(made, fs::perms::all);
  EXPECT_FALSE(jit().compile(request()).cached);
  fs::permissions(made / cubin_file, fs::perms::all);
  EXPECT_FALSE(jit().compile(request()).cached);
  EXPECT_TRUE(jit().compile(request()).cached);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(PlacesTest, FifosDoNotHold) {
  for (const char* name : {cubin_file, info_file}) {
    fs::remove(made / name);
    ASSERT_EQ(::mkfifo((made / name).c_str(), 0600), 0);
    EXPECT_THAT(list_entries(cache).size(), 1u);
    EXPECT_THAT(verify_entries(cache).at(0).problem, HasSubstr("FIFO"));
    EXPECT_FALSE(jit().compile(request()).cached) << name;
  }
}

}  // namespace
}  // namespace unisono::jit
