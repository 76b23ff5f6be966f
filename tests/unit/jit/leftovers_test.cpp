// What killed processes leave behind.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST_F(LeftoversTest, OfOtherHostsStayForADay) {
  const std::string name = "0123456789ab-1-1-1";
  EXPECT_FALSE(support::owner_is_gone(name, 3600));
  EXPECT_TRUE(support::owner_is_gone(name, 25 * 3600));
}

TEST_F(LeftoversTest, StrangeNamesStay) {
  for (const char* name :
       {"", "x", "README", "0123456789ab", "0123456789ab-", "0123456789ab-1", "0123456789ab-x-1-1"}) {
    EXPECT_FALSE(support::owner_is_gone(name, 1e9)) << name;
  }
}

TEST_F(LeftoversTest, NumberOfADeadProcessMayBeReused) {
  const std::string mine = support::unique_name();
  EXPECT_FALSE(support::owner_is_gone(mine, 0));
  // the same number, another start
  const std::size_t dash = mine.find('-', 13);
  EXPECT_TRUE(support::owner_is_gone(mine.substr(0, dash) + "-1-0", 0));
}

}  // namespace
}  // namespace unisono::jit
