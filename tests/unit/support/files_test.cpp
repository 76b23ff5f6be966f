#include "support/files.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "unisono_files_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override {
    fs::remove_all(root);
    ::unsetenv("XDG_RUNTIME_DIR");
    ::unsetenv("TMPDIR");
  }
  fs::path root;
};

TEST_F(FilesTest, WrittenFilesAreRead) {
  const std::string bytes("a\0b\n", 4);
  write_file(root / "file", bytes);
  EXPECT_EQ(read_file(root / "file"), bytes);
  write_file(root / "empty", "");
  EXPECT_EQ(read_file(root / "empty"), "");
}

TEST_F(FilesTest, WhatCannotBeReadIsNothing) {
  EXPECT_FALSE(read_file(root / "absent"));
  EXPECT_FALSE(read_file(root));
  EXPECT_FALSE(read_file("/dev/null"));
}

TEST_F(FilesTest, WhatCannotBeWrittenIsAnErrorWithItsPath) {
  write_file(root / "file", "x");
  for (const fs::path& path : {root / "file", root / "absent" / "file", root / "file" / "below"}) {
    try {
      write_file(path, "y");
      FAIL() << path;
    } catch (const std::system_error& e) {
      EXPECT_NE(std::string(e.what()).find(path.string()), std::string::npos);
    }
  }
  EXPECT_EQ(read_file(root / "file"), "x");
}

TEST_F(FilesTest, FoldersAreMadeForThisUserAlone) {
  make_folders(root / "a" / "b");
  make_folders(root / "a" / "b");
  struct stat info {};
  ASSERT_EQ(::stat((root / "a" / "b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  write_file(root / "file", "");
  EXPECT_THROW(make_folders(root / "file"), std::system_error);
  EXPECT_THROW(make_folders(root / "file" / "b"), std::system_error);
}

TEST_F(FilesTest, TemporaryFolderGoesWithItsObject) {
  fs::path path;
  {
    const TemporaryFolder folder(root / "tmp");
    path = folder.path();
    write_file(path / "file", "x");
    EXPECT_NE(TemporaryFolder(root / "tmp").path(), path);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(FilesTest, TemporaryFolderCanBeRenamedOnce) {
  {
    TemporaryFolder one(root / "tmp");
    write_file(one.path() / "file", "one");
    EXPECT_TRUE(one.rename_to(root / "target"));
  }
  EXPECT_EQ(read_file(root / "target" / "file"), "one");
  TemporaryFolder two(root / "tmp");
  EXPECT_FALSE(two.rename_to(root / "target"));
  EXPECT_EQ(read_file(root / "target" / "file"), "one");
  EXPECT_THROW(two.rename_to(root / "absent" / "target"), std::system_error);
}

TEST_F(FilesTest, HostFolderIsOfThisUserAlone) {
  ::setenv("XDG_RUNTIME_DIR", root.c_str(), 1);
  EXPECT_EQ(host_folder(), root / "unisono");
  fs::permissions(root / "unisono", fs::perms::all);
  EXPECT_NE(host_folder(), root / "unisono");  // others could put their own files in place of the locks
  fs::remove(root / "unisono");
  fs::create_directory_symlink("/tmp", root / "unisono");
  EXPECT_NE(host_folder(), root / "unisono");
  ::setenv("XDG_RUNTIME_DIR", "relative", 1);
  EXPECT_TRUE(host_folder()->is_absolute());
}

TEST_F(FilesTest, WorkFolderIsBelowTheTemporaryOne) {
  ::setenv("TMPDIR", root.c_str(), 1);
  EXPECT_EQ(work_folder()->parent_path().parent_path(), root);
  ::setenv("TMPDIR", (root / "absent").c_str(), 1);
  EXPECT_FALSE(work_folder());
}

TEST_F(FilesTest, LockExcludes) {
  FileLock one(root / "lock"), two(root / "lock");
  EXPECT_TRUE(one.try_lock(0));
  EXPECT_FALSE(two.try_lock(0));
  EXPECT_FALSE(two.try_lock(0.01));
}

TEST_F(FilesTest, LockEndsWithItsObject) {
  { EXPECT_TRUE(FileLock(root / "lock").try_lock(0)); }
  EXPECT_TRUE(fs::exists(root / "lock"));
  EXPECT_TRUE(FileLock(root / "lock").try_lock(0));
}

TEST_F(FilesTest, LockEndsWithItsProcess) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    FileLock lock(root / "lock");
    [[maybe_unused]] const auto n = ::write(ready[1], lock.try_lock(0) ? "y" : "n", 1);
    while (true) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  FileLock lock(root / "lock");
  EXPECT_FALSE(lock.try_lock(0));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(lock.try_lock(1));
  ::close(ready[0]), ::close(ready[1]);
}

/// A program that uses the library may fork while one of its threads compiles.
TEST_F(FilesTest, LockEndsAlthoughAForkHoldsTheFileOpen) {
  pid_t child = 0;
  {
    FileLock lock(root / "lock");
    EXPECT_TRUE(lock.try_lock(0));
    child = ::fork();
    if (child == 0) {
      while (true) ::pause();
    }
  }
  EXPECT_TRUE(FileLock(root / "lock").try_lock(0));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(FilesTest, LockOnNoFileIsAnError) { EXPECT_THROW(FileLock(root / "absent" / "lock"), std::system_error); }

}  // namespace
}  // namespace unisono::support
