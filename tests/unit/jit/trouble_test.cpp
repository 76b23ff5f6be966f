// Disks that are full and folders that cannot be written: the kernel is compiled and used, with one warning.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.hpp"

namespace unisono::jit {
namespace {

using ::testing::HasSubstr;

class TroubleTest : public JitTest {
 protected:
  /// All requests give their binaries, and one warning is heard.
  void expect_use(const Settings& s, const std::string& warning) {
    Jit jit(s, compiler);
    for (const char* source : {"kernel k", "kernel k other", "kernel k"}) {
      const Binary b = jit.compile(request(source));
      EXPECT_EQ(b.cubin, expected(request(source)));
      EXPECT_TRUE(b.entry.empty());
      EXPECT_EQ(b.resources.registers, 1);
    }
    EXPECT_EQ(compiler->count, 2) << "what cannot be written is kept in memory";
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr(warning));
  }
};

TEST_F(TroubleTest, FileInPlaceOfTheCache) {
  overwrite(cache, "no folder");
  expect_use(settings(), "Not a directory");
}

TEST_F(TroubleTest, CacheBelowAFile) {
  overwrite(root / "file", "");
  Settings s = settings();
  s.cache = root / "file" / "cache";
  expect_use(s, "Not a directory");
}

TEST_F(TroubleTest, CacheWithoutPermission) {
  fs::create_directory(cache);
  fs::permissions(cache, fs::perms::owner_read | fs::perms::owner_exec);
  // permissions do not bind root: then as somebody else, who owns the rest
  const bool root_user = ::geteuid() == 0;
  constexpr uid_t nobody = 65534;
  if (root_user) {
    for (const fs::path& p : {root, root / "run", root / "tmp", cache})
      ASSERT_EQ(::chown(p.c_str(), nobody, nobody), 0);
    ASSERT_EQ(::seteuid(nobody), 0);
  }
  expect_use(settings(), "Permission denied");
  if (root_user) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  fs::permissions(cache, fs::perms::owner_all);
}

TEST_F(TroubleTest, FilesThatCannotBeWrittenToTheirEnd) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};  // less than the binary
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_use(settings(), "File too large");
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(count_in(cache), 2u);  // the marker, and the folder for entries in the making
  EXPECT_EQ(count_in(cache / making_folder), 0u);
  EXPECT_FALSE(jit().compile(request()).entry.empty());
}

/// In a process of its own, with a file system of two pages for the cache. Exit code 77: not permitted here.
int use_full_disk(const fs::path& cache, const std::function<bool()>& works) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
  if (::mount("tmpfs", cache.c_str(), "tmpfs", 0, "size=8k,mode=700") != 0) return 77;
  return works() ? 0 : 1;
}

TEST_F(TroubleTest, FullDisk) {
  fs::create_directory(cache);
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(use_full_disk(cache, [&] {
      expect_use(settings(), "No space left on device");
      return !HasFailure() && warnings.size() == 1;
    }));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no file system may be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(TroubleTest, ReadOnlyCacheIsRead) {
  const Binary b = jit().compile(request());
  compiler->count = 0;
  // nothing new can be made in it: the folder for entries in the making is a file
  fs::remove_all(cache / making_folder);
  overwrite(cache / making_folder, "");
  Jit second(settings(), compiler);
  EXPECT_TRUE(second.compile(request()).cached);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(second.compile(request("kernel k other")).cubin, expected(request("kernel k other")));
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(fs::exists(b.entry));
}

TEST_F(TroubleTest, BrokenEntryThatCannotBeMovedAway) {
  const Binary b = jit().compile(request());
  fs::resize_file(b.entry / cubin_file, 0);
  overwrite(cache / broken_folder, "a file in place of the folder");
  EXPECT_EQ(jit().compile(request()).cubin, expected(request()));
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[0], HasSubstr("cannot be moved away"));
}

TEST_F(TroubleTest, LockFolderOfSomebodyElse) {
  fs::permissions(root / "run", fs::perms::all);
  fs::create_directory(root / "run" / "unisono");
  fs::permissions(root / "run" / "unisono", fs::perms::all);  // others may write: not ours alone
  EXPECT_FALSE(jit().compile(request()).entry.empty());       // by way of /tmp
}

TEST_F(TroubleTest, NoHome) {
  Settings s = settings();
  s.cache.clear();
  std::vector<std::pair<const char*, std::string>> before;
  for (const char* name : {"HOME", "XDG_CACHE_HOME", "UNISONO_CACHE_DIR"}) {
    if (const char* value = ::getenv(name)) before.emplace_back(name, value);
    ::unsetenv(name);
  }
  EXPECT_EQ(Jit(s, compiler).compile(request()).cubin, expected(request()));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("HOME"));
  for (const auto& [name, value] : before) ::setenv(name, value.c_str(), 1);
}

}  // namespace
}  // namespace unisono::jit
