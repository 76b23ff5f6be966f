#include "support/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace unisono::support {
namespace {

/// Sets variables (nullptr: unsets), and puts the old values back at its end.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Environment, PathIsSplitWithoutEmptyParts) {
  const Variable path("PATH", ":/a/b::/c:");
  EXPECT_THAT(executable_folders(), testing::ElementsAre("/a/b", "/c"));
}

TEST(Environment, NoPathHasNoFolders) {
  const Variable path("PATH", nullptr);
  EXPECT_TRUE(executable_folders().empty());
}

TEST(Environment, CacheFolderFollowsXdgThenHome) {
  const Variable home("HOME", "/home/someone");
  {
    const Variable xdg("XDG_CACHE_HOME", "/caches");
    EXPECT_EQ(cache_folder(), "/caches/unisono");
  }
  for (const char* ignored : {static_cast<const char*>(nullptr), "", "relative/path"}) {
    const Variable xdg("XDG_CACHE_HOME", ignored);
    EXPECT_EQ(cache_folder(), "/home/someone/.cache/unisono");
  }
}

TEST(Environment, NoHomeHasNoCache) {
  const Variable home("HOME", nullptr), xdg("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(cache_folder(), std::nullopt);
}

TEST(Environment, PacksOfAnInstallationAreWhereItHasItsLibrariesOrPrograms) {
  EXPECT_EQ(installed_pack_folder("/opt/unisono/bin/unisono"), "/opt/unisono/share/unisono/kernels");
  EXPECT_EQ(installed_pack_folder("/usr/" UNISONO_INSTALL_LIBDIR "/libunisono.so.1"), "/usr/share/unisono/kernels");
}

TEST(Environment, AProgramAnywhereElseHasNone) {
  for (const char* path :
       {"/tmp/X/unisono", "/tmp/unisono", "/unisono", "/tmp/build/ci/tools/unisono/unisono", "unisono"})
    EXPECT_EQ(installed_pack_folder(path), std::nullopt) << path;
}

}  // namespace
}  // namespace unisono::support
