// How much memory a process may use, by its limits and its control groups, and what an error then says.
#include "support/machine_memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <fstream>
#include <limits>

#include "support/files.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

class ControlGroups : public ::testing::Test {
 protected:
  void put(const fs::path& file, const std::string& text) const {
    fs::create_directories((folder.path() / file).parent_path());
    std::ofstream(folder.path() / file) << text << "\n";
  }
  std::uint64_t limit() const { return control_group_limit(folder.path() / "self", folder.path() / "tree"); }

  TemporaryFolder folder{fs::temp_directory_path()};
};

TEST_F(ControlGroups, TheLeastOfTheGroupAndAllThatItLiesIn) {
  put("self", "0::/user.slice/session/job");
  EXPECT_EQ(limit(), std::numeric_limits<std::uint64_t>::max());
  put("tree/memory.max", "9000");
  put("tree/user.slice/memory.max", "max");
  put("tree/user.slice/session/memory.max", "5000");
  put("tree/user.slice/session/job/memory.max", "7000");
  put("tree/user.slice/session/job/below/memory.max", "1");
  put("tree/another/memory.max", "2");
  EXPECT_EQ(limit(), 5000u) << "of a group between the root and the process's own";
  put("tree/user.slice/session/job/memory.max", "3000");
  EXPECT_EQ(limit(), 3000u);
  put("tree/memory.max", "1000");
  EXPECT_EQ(limit(), 1000u);
}

TEST_F(ControlGroups, Version1) {
  put("self", "12:cpu,cpuacct:/other\n7:hugetlb,memory:/docker/job\n0::/");
  put("tree/memory/memory.limit_in_bytes", "9223372036854771712");
  put("tree/memory/docker/memory.limit_in_bytes", "4000");
  put("tree/memory/docker/job/memory.limit_in_bytes", "6000");
  put("tree/memory/other/memory.limit_in_bytes", "1");
  EXPECT_EQ(limit(), 4000u);
}

// A container sees its own tree, and may be told the host's path or one above its root
TEST_F(ControlGroups, PathsThatAreNotInTheTree) {
  put("tree/memory.max", "8000");
  for (const std::string group : {"0::/docker/0123", "0::/../..", "0::/", "0::", "nonsense", ""}) {
    put("self", group);
    EXPECT_EQ(limit(), 8000u) << group;
  }
}

TEST(UsableMemory, IsNoMoreThanTheProcesssOwnLimit) {
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  const std::uint64_t whole = usable_memory();
  EXPECT_GT(whole, std::uint64_t{64} << 20);
  const rlimit small{std::min<rlim_t>(before.rlim_max, rlim_t{1} << 45), before.rlim_max};
  if (::setrlimit(RLIMIT_AS, &small) == 0) {
    EXPECT_LE(usable_memory(), small.rlim_cur);
  }
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(usable_memory(), whole);
}

TEST(RequireMemory, NamesWhatTakesHowMuch) {
  EXPECT_NO_THROW(require_memory(std::array{MemoryUse{"inputs", 1000}, MemoryUse{"outputs", 0}}));
  constexpr std::uint64_t huge = std::uint64_t{1} << 60;
  try {
    require_memory(std::array{MemoryUse{"inputs", 3}, MemoryUse{"outputs", huge}, MemoryUse{"constants", 0}});
    FAIL() << "no error";
  } catch (const UserError& error) {
    const std::string what = error.what();
    EXPECT_THAT(what, Says("a run takes 1152921504606846979 bytes … this process may use "));
    EXPECT_NE(what.find("(outputs 1152921504606846976, inputs 3); give smaller inputs"), std::string::npos) << what;
  }
  EXPECT_THROW(require_memory(std::array{MemoryUse{"inputs", huge * 15}, MemoryUse{"outputs", huge * 15}}), UserError);
}

}  // namespace
}  // namespace unisono::support
