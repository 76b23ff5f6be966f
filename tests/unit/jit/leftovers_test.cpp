// What killed processes leave behind.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "fixture.hpp"
#include "support/files.hpp"

namespace unisono::jit {
namespace {

using LeftoversTest = JitTest;

/// A process that makes an entry's temporary folder and is killed in the middle.
void leave_one(const fs::path& cache) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const support::TemporaryFolder making(cache / making_folder);
    support::write_file(making.path() / "half", "of a file");
    [[maybe_unused]] const auto n = ::write(ready[1], "x", 1);
    while (true) ::pause();
  }
  char x;
  ASSERT_EQ(::read(ready[0], &x, 1), 1);
  ::close(ready[0]), ::close(ready[1]);
  EXPECT_EQ(support::sweep(cache / making_folder), 0u) << "the process lives";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(LeftoversTest, AreSweptAtTheNextStart) {
  claim(cache);
  leave_one(cache);
  EXPECT_EQ(count_in(cache / making_folder), 1u);
  jit();
  EXPECT_EQ(count_in(cache / making_folder), 0u);
}

TEST_F(LeftoversTest, OfLiveProcessesStay) {
  const support::TemporaryFolder mine(cache / making_folder);
  jit().compile(request());
  EXPECT_TRUE(fs::exists(mine.path()));
}

/// A process that has made a folder in another thread than its first, which has ended. Until the folder is locked, a
/// sweep may take it, and its maker tries another name.
pid_t process_without_its_first_thread(const fs::path& parent) {
  int made[2];
  if (::pipe(made) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([parent, end = made[1]] {
      const support::TemporaryFolder making(parent);
      if (::write(end, "x", 1) != 1) std::abort();
      while (true) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // of this thread alone
  }
  ::close(made[1]);
  char x;
  EXPECT_EQ(::read(made[0], &x, 1), 1);
  ::close(made[0]);
  std::string state;
  while (state != "Z") {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string number, name;
    stat >> number >> name >> state;
  }
  return child;
}

// As a process that was killed while one of its threads is within a call of the kernel
TEST_F(LeftoversTest, OfProcessesThatHaveOneThreadLeftStay) {
  const pid_t child = process_without_its_first_thread(cache / making_folder);
  EXPECT_EQ(support::sweep(cache / making_folder), 0u);
  EXPECT_EQ(count_in(cache / making_folder), 1u);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(support::sweep(cache / making_folder), 1u);
}

/// Something in a folder that was last changed so long ago.
fs::path aged(const fs::path& path, int hours) {
  fs::create_directories(path);
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  return path;
}

// Also those of an earlier version of this host, which has no locks
TEST_F(LeftoversTest, OfOtherHostsStayForADay) {
  for (const char* name : {"0123456789ab-0123456789abcdef", "0123456789ab-17-120-3"}) {
    const fs::path path = aged(cache / making_folder / name, 23);
    EXPECT_EQ(support::sweep(cache / making_folder), 0u) << name;
    aged(path, 25);
    EXPECT_EQ(support::sweep(cache / making_folder), 1u) << name;
  }
}

TEST_F(LeftoversTest, StrangeNamesStay) {
  for (const char* name : {"x", "README", "0123456789ab", "0123456789ab-", "0123456789ab-x-1-1", "0123456789aB-1-1-1"})
    aged(cache / making_folder / name, 10000);
  EXPECT_EQ(support::sweep(cache / making_folder), 0u);
}

// Sweeps that run all the time take no folder from those who make them
TEST_F(LeftoversTest, NothingIsSweptWhileItIsMade) {
  std::atomic<bool> ends = false;
  std::thread sweeps([&] {
    while (!ends) support::sweep(cache / making_folder);
  });
  int published = 0;
  for (int i = 0; i < 100; ++i) {
    support::TemporaryFolder making(cache / making_folder);
    support::write_file(making.path() / "file", "x");
    published += making.rename_to(cache / std::to_string(i)) && fs::exists(cache / std::to_string(i) / "file");
  }
  ends = true;
  sweeps.join();
  EXPECT_EQ(published, 100);
}

}  // namespace
}  // namespace unisono::jit
