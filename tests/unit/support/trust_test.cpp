// Who could have written what: by owner, mode and the way to it.
#include "support/trust.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include "support/files.hpp"

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uid_t nobody = 65534;

class TrustTest : public ::testing::Test {
 protected:
  TrustTest() { fs::create_directories(deep); }

  void mode(const fs::path& path, unsigned bits) { ASSERT_EQ(::chmod(path.c_str(), bits), 0); }

  TemporaryFolder folder{fs::temp_directory_path()};
  fs::path middle = folder.path() / "a", deep = middle / "b";
};

TEST_F(TrustTest, OwnFoldersAreTrustedAlsoBelowASharedStickyOne) {
  mode(folder.path(), 01777);
  EXPECT_EQ(why_distrusted(deep), "");
  EXPECT_EQ(why_distrusted(deep / "absent" / "too"), "");
  std::ofstream(deep / "file") << "x";
  EXPECT_EQ(why_distrusted(deep / "file"), "");
  EXPECT_EQ(why_distrusted("/"), "");
}

TEST_F(TrustTest, FoldersThatOthersMayWriteToAreNot) {
  mode(deep, 0777);
  EXPECT_THAT(why_distrusted(deep), AllOf(HasSubstr(deep.string()), HasSubstr("mode 777"), HasSubstr("chmod go-w")));
  mode(deep, 01777);  // sticky: they may still add what is not there yet
  EXPECT_THAT(why_distrusted(deep), HasSubstr("mode 1777"));
  mode(deep, 0755);
  mode(middle, 0757);
  EXPECT_THAT(why_distrusted(deep), HasSubstr("'" + middle.string() + "'"));
  EXPECT_THAT(why_distrusted(deep / "absent"), HasSubstr("'" + middle.string() + "'"));
}

TEST_F(TrustTest, FilesThatOthersMayWriteToAreNot) {
  std::ofstream(deep / "file") << "x";
  mode(deep / "file", 0666);
  EXPECT_THAT(why_distrusted(deep / "file"), HasSubstr("mode 666"));
}

TEST_F(TrustTest, LinksAreFollowedAndTheirTargetsChecked) {
  mode(middle, 0777);
  fs::create_directory_symlink(deep, folder.path() / "link");
  EXPECT_THAT(why_distrusted(folder.path() / "link"), HasSubstr("'" + middle.string() + "'"));
  mode(middle, 0755);
  EXPECT_EQ(why_distrusted(folder.path() / "link"), "");
  EXPECT_EQ(why_distrusted(folder.path() / "link" / ".." / "b"), "");
  fs::create_directory_symlink("loop", folder.path() / "loop");
  EXPECT_EQ(why_distrusted(folder.path() / "loop"), "");  // whoever opens it says so
}

TEST_F(TrustTest, WhatStandsAboveTheHomeDoesNotCountForWhatIsInIt) {
  mode(middle, 0777);
  EXPECT_NE(why_distrusted(deep / "cache"), "");
  const std::string before = ::getenv("HOME") == nullptr ? "" : ::getenv("HOME");
  ::setenv("HOME", deep.c_str(), 1);
  EXPECT_EQ(why_distrusted(deep / "cache"), "");
  EXPECT_NE(why_distrusted(middle / "other"), "");
  mode(deep, 0777);
  EXPECT_NE(why_distrusted(deep / "cache"), "");  // a home that others may write to is none
  before.empty() ? ::unsetenv("HOME") : ::setenv("HOME", before.c_str(), 1);
}

TEST_F(TrustTest, WhatBelongsToSomebodyElseIsNot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  ASSERT_EQ(::chown(deep.c_str(), nobody, nobody), 0);
  EXPECT_THAT(why_distrusted(deep), AllOf(HasSubstr("belongs to user 65534"), HasSubstr("root")));
  ASSERT_EQ(::chown(deep.c_str(), 0, 0), 0);
  fs::create_directory_symlink(deep, folder.path() / "link");
  ASSERT_EQ(::lchown((folder.path() / "link").c_str(), nobody, nobody), 0);
  EXPECT_THAT(why_distrusted(folder.path() / "link"), HasSubstr("symbolic link"));
}

TEST_F(TrustTest, RootsFilesAreTrustedByAUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  mode(folder.path(), 0755);
  ASSERT_EQ(::seteuid(nobody), 0);
  EXPECT_EQ(why_distrusted(deep), "");
  ASSERT_EQ(::seteuid(0), 0);
}

TEST_F(TrustTest, AGroupOfSeveralMayNotWrite) {
  struct stat info {};
  info.st_uid = ::geteuid(), info.st_gid = 123456, info.st_mode = S_IFDIR | 0775;  // a group that does not exist
  EXPECT_FALSE(is_own(info));
  info.st_mode = S_IFDIR | 0755;
  EXPECT_TRUE(is_own(info));
  info.st_uid = 0, info.st_gid = 0, info.st_mode = S_IFDIR | 0775;  // root's own group
  EXPECT_TRUE(is_own(info));
  info.st_uid = 654321;
  EXPECT_FALSE(is_own(info));
}

}  // namespace
}  // namespace unisono::support
