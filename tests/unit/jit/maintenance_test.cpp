#include "jit/maintenance.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <ctime>

#include "fixture.hpp"

namespace unisono::jit {
namespace {

class MaintenanceTest : public JitTest {
 protected:
  void SetUp() override {
    JitTest::SetUp();
    for (int i = 0; i < 4; ++i) {
      entries.push_back(jit().compile(request("kernel k " + std::to_string(i))).entry);
      used(i, i * 24.0 * 3600);
    }
  }
  /// Sets an entry's last use.
  void used(int i, double seconds_ago) {
    const timespec t{std::time(nullptr) - static_cast<std::time_t>(seconds_ago), 0};
    const timespec times[2] = {t, t};
    ::utimensat(AT_FDCWD, (entries[i] / info_file).c_str(), times, 0);
  }
  std::size_t there() {
    std::size_t n = 0;
    for (const fs::path& e : entries) n += fs::exists(e);
    return n;
  }

  std::vector<fs::path> entries;
};

TEST_F(MaintenanceTest, ListIsInTheOrderOfUse) {
  const auto list = list_entries(cache);
  ASSERT_EQ(list.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(list[i].folder, entries[i]);
    EXPECT_EQ(list[i].problem, "");
    EXPECT_EQ(list[i].info->title, "title");
    EXPECT_GT(list[i].bytes, 3000u);
  }
}

TEST_F(MaintenanceTest, AbsentCacheIsEmpty) {
  EXPECT_TRUE(list_entries(root / "absent").empty());
  EXPECT_EQ(prune_entries(root / "absent", {.all = true}).removed.size(), 0u);
  EXPECT_FALSE(fs::exists(root / "absent"));
  overwrite(root / "file", "");
  EXPECT_THROW(list_entries(root / "file"), UserError);
}

TEST_F(MaintenanceTest, UseIsRecorded) {
  jit().compile(request("kernel k 3"));
  EXPECT_EQ(list_entries(cache)[0].folder,
            fs::path(entries[0]) < fs::path(entries[3]) ? list_entries(cache)[0].folder : entries[3]);
  EXPECT_LT(std::time(nullptr) - list_entries(cache)[1].used, 10);
}

TEST_F(MaintenanceTest, VerifyFindsEveryChangedFile) {
  for (const auto& e : verify_entries(cache)) EXPECT_EQ(e.problem, "");
  overwrite(entries[0] / "source.cu", "kernel x 0");
  overwrite(entries[1] / log_file, "");
  fs::resize_file(entries[2] / cubin_file, 7);
  overwrite(entries[3] / info_file, "{}");
  const auto list = verify_entries(cache);
  ASSERT_EQ(list.size(), 4u);
  for (const Listed& e : list) EXPECT_NE(e.problem, "") << e.folder;
}

TEST_F(MaintenanceTest, PruneByAge) {
  const Pruned pruned = prune_entries(cache, {.older_than = 36 * 3600.0});
  EXPECT_EQ(pruned.removed.size(), 2u);
  EXPECT_EQ(pruned.kept, 2u);
  EXPECT_TRUE(fs::exists(entries[0]) && fs::exists(entries[1]));
  EXPECT_EQ(there(), 2u);
}

TEST_F(MaintenanceTest, PruneBySizeKeepsTheLastUsed) {
  const std::uint64_t one = list_entries(cache)[0].bytes;
  const Pruned pruned = prune_entries(cache, {.max_bytes = 2 * one + one / 2});
  EXPECT_EQ(pruned.removed.size(), 2u);
  EXPECT_LE(pruned.kept_bytes, 2 * one + one / 2);
  EXPECT_TRUE(fs::exists(entries[0]) && fs::exists(entries[1]));
}

TEST_F(MaintenanceTest, PruneAll) {
  const Pruned pruned = prune_entries(cache, {.all = true});
  EXPECT_EQ(pruned.removed.size(), 4u);
  EXPECT_EQ(there(), 0u);
  EXPECT_EQ(count_in(cache / making_folder), 0u);
  EXPECT_FALSE(jit().compile(request("kernel k 0")).cached);
}

TEST_F(MaintenanceTest, BrokenEntriesAndLeftoversGoAlways) {
  fs::resize_file(entries[2] / cubin_file, 7);
  EXPECT_THROW(jit().compile(request("broken")), CompileError);
  fs::resize_file(entries[1] / cubin_file, 7);
  jit().compile(request("kernel k 1"));
  const Pruned pruned = prune_entries(cache, {});
  EXPECT_EQ(pruned.removed.size(), 1u);
  EXPECT_EQ(pruned.leftovers, 2u);  // the failed source, and the broken entry that was set aside
  EXPECT_EQ(there(), 3u);
}

TEST_F(MaintenanceTest, WhatCannotBeRemovedIsSaid) {
  fs::remove_all(cache / making_folder);
  overwrite(cache / making_folder, "");
  const Pruned pruned = prune_entries(cache, {.all = true});
  EXPECT_EQ(pruned.removed.size(), 0u);
  EXPECT_FALSE(pruned.problems.empty());
}

}  // namespace
}  // namespace unisono::jit
