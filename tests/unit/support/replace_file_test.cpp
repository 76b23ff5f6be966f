// A result replaces the earlier one as a whole, or leaves it.
#include "support/replace_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "support/files.hpp"

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

class ReplaceFileTest : public ::testing::Test {
 protected:
  std::size_t items() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
  }
  static unsigned mode_of(const fs::path& path) {
    struct stat info {};
    ::stat(path.c_str(), &info);
    return info.st_mode & 07777;
  }
  TemporaryFolder folder{fs::temp_directory_path()};
  fs::path file = folder.path() / "result.json";
};

TEST_F(ReplaceFileTest, MakesAndReplaces) {
  replace_file(file, "one");
  EXPECT_EQ(read_file(file), "one");
  EXPECT_EQ(mode_of(file) & 0600, 0600u);
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  replace_file(file, "");
  EXPECT_EQ(read_file(file), "");
  EXPECT_EQ(mode_of(file), 0640u);
  EXPECT_EQ(items(), 1u);
}

TEST_F(ReplaceFileTest, AFailureLeavesTheLastResult) {
  replace_file(file, "good");
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(replace_file(file, std::string(2000, 'x')), std::system_error);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(read_file(file), "good");
  EXPECT_EQ(items(), 1u);
}

TEST_F(ReplaceFileTest, LinksKeepTheirTargets) {
  fs::create_symlink("result.json", folder.path() / "link");
  replace_file(folder.path() / "link", "made");  // the target is not there yet
  EXPECT_EQ(read_file(file), "made");
  replace_file(folder.path() / "link", "replaced");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(read_file(file), "replaced");
  fs::create_symlink("loop", folder.path() / "loop");
  EXPECT_THROW(replace_file(folder.path() / "loop", "x"), std::system_error);
}

TEST_F(ReplaceFileTest, WhatIsNoRegularFileIsWrittenInPlace) {
  EXPECT_NO_THROW(replace_file("/dev/null", "x"));
  struct stat info {};
  ASSERT_EQ(::stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  replace_file("/dev/fd/" + std::to_string(ends[1]), "through");
  char text[8] = {};
  EXPECT_EQ(::read(ends[0], text, 7), 7);
  EXPECT_STREQ(text, "through");
  ::close(ends[0]), ::close(ends[1]);
}

TEST_F(ReplaceFileTest, ErrorsNameThePath) {
  for (const fs::path& path : {folder.path(), folder.path() / "absent" / "file", file / "below"}) {
    replace_file(file, "x");
    try {
      replace_file(path, "y");
      FAIL() << path;
    } catch (const std::system_error& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
    }
  }
}

TEST_F(ReplaceFileTest, InAFolderWhereNothingCanBeMadeAFileIsWrittenInPlace) {
  constexpr uid_t nobody = 65534;
  replace_file(file, "one");
  const bool root = ::geteuid() == 0;  // whom no permission binds: then as somebody else
  ASSERT_EQ(::chmod(folder.path().c_str(), root ? 0755 : 0555), 0);
  if (root) {
    ASSERT_EQ(::chown(file.c_str(), nobody, nobody), 0);
    ASSERT_EQ(::seteuid(nobody), 0);
  }
  EXPECT_NO_THROW(replace_file(file, "two"));
  EXPECT_THROW(replace_file(folder.path() / "another", "x"), std::system_error);
  ASSERT_EQ(::chmod(file.c_str(), 0444), 0);
  EXPECT_THROW(replace_file(file, "three"), std::system_error);  // read-only on purpose
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(read_file(file), "two");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
}

// None of several files takes its name before all are written
TEST_F(ReplaceFileTest, SeveralTogether) {
  const fs::path other = folder.path() / "other", link = folder.path() / "link";
  replace_file(file, "one");
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  fs::create_symlink("target", link);
  {
    FileReplacements files;
    for (const fs::path& path : {file, other, link}) files.write(path, "new");
    files.write("/dev/null", "in place");
    EXPECT_EQ(read_file(file), "one");
    EXPECT_FALSE(fs::exists(other));
    EXPECT_EQ(items(), 5u) << "two names, and three files beside";
  }
  EXPECT_EQ(items(), 2u) << "never committed: nothing is left";
  FileReplacements files;
  for (const fs::path& path : {file, other, link}) files.write(path, "new");
  EXPECT_THROW(files.write(folder.path() / "absent" / "file", "x"), std::system_error);
  EXPECT_EQ(read_file(file), "one");
  files.commit();
  for (const fs::path& path : {file, other, folder.path() / "target"}) EXPECT_EQ(read_file(path), "new") << path;
  EXPECT_EQ(mode_of(file), 0640u);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(items(), 4u);
}

// More files than a process may have open
TEST_F(ReplaceFileTest, ManyTogether) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{std::min<rlim_t>(before.rlim_max, 64), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  FileReplacements files;
  for (int i = 0; i < 200; ++i) files.write(folder.path() / std::to_string(i), std::to_string(i));
  files.commit();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(items(), 200u);
  EXPECT_EQ(read_file(folder.path() / "123"), "123");
}

TEST_F(ReplaceFileTest, LongNames) {
  const fs::path longest = folder.path() / std::string(255, 'n');
  replace_file(longest, "x");
  EXPECT_EQ(read_file(longest), "x");
}

}  // namespace
}  // namespace unisono::support
