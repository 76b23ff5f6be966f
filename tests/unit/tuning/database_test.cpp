// The user's file: many processes, damage, files of others.

#include "tuning/database.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "rows.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::tuning {
namespace {

using Access = Database::Access;
using testing::HasSubstr;

class DatabaseTest : public testing::Test {
 protected:
  support::TemporaryFolder folder{std::filesystem::temp_directory_path()};
  std::filesystem::path file = folder.path() / "deep" / "tuning.db";

  std::string error_of(Access access) const {
    try {
      Database(file, access).rows();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(DatabaseTest, KeepsRows) {
  {
    Database db(file, Access::write);
    EXPECT_TRUE(db.rows().empty());
    const std::vector rows{test::row("a"), test::row("b")};
    db.put(rows);
  }
  const Database db(file, Access::read);
  EXPECT_EQ(to_text(db.rows()), to_text({test::row("a"), test::row("b")}));
  const auto found = db.find(test::row("b").platform, test::row("b").key);
  ASSERT_TRUE(found);
  EXPECT_EQ(to_line(*found), to_line(test::row("b")));
}

TEST_F(DatabaseTest, AKeyIsReplaced) {
  Database db(file, Access::write);
  const Row first = test::row("a"), second = test::row("a", "tile=64x64");
  db.put({&first, 1});
  db.put({&second, 1});
  ASSERT_EQ(db.rows().size(), 1u);
  EXPECT_EQ(db.rows()[0].plan, "tile=64x64");
}

TEST_F(DatabaseTest, EveryPartOfAPlaceCounts) {
  Database db(file, Access::write);
  const Row r = test::row("a");
  db.put({&r, 1});
  const auto with = [&](auto change) {
    Platform p = r.platform;
    change(p);
    return db.find(p, r.key).has_value();
  };
  EXPECT_TRUE(with([](Platform&) {}));
  EXPECT_FALSE(with([](Platform& p) { p.device = "NVIDIA H100"; }));
  EXPECT_FALSE(with([](Platform& p) { p.sms = 114; }));
  EXPECT_FALSE(with([](Platform& p) { p.driver = "570.1"; }));
  EXPECT_FALSE(with([](Platform& p) { p.kernels = "ffff"; }));
  EXPECT_TRUE(with([](Platform& p) { p.driver.clear(); }));  // without a GPU nobody knows
  EXPECT_FALSE(db.find(r.platform, {r.key.problem, "silu #1"}));
}

TEST_F(DatabaseTest, TheNewestOfSeveralDrivers) {
  Database db(file, Access::write);
  Row old = test::row("a", "tile=64x64"), now = test::row("a", "tile=128x64");
  old.when = "2026-01-01T00:00:00Z", old.platform.driver = "580.99";
  const std::vector rows{now, old};
  db.put(rows);
  Platform platform = now.platform;
  platform.driver.clear();
  EXPECT_EQ(db.find(platform, now.key)->plan, "tile=128x64");
}

TEST_F(DatabaseTest, RemovesThoseOfAPlace) {
  Database db(file, Access::write);
  Row here = test::row("a"), there = test::row("a");
  there.platform.device = "another";
  const std::vector rows{here, there};
  db.put(rows);
  EXPECT_EQ(db.remove(here.platform), 1u);
  EXPECT_EQ(db.rows().size(), 1u);
}

TEST_F(DatabaseTest, AMissingFileIsAnErrorOnlyWhereOneIsRead) {
  EXPECT_THAT(error_of(Access::read), HasSubstr(file.string()));
  EXPECT_EQ(error_of(Access::write), "no error");
  EXPECT_EQ(error_of(Access::read), "no error");
}

TEST_F(DatabaseTest, DamageIsNamedAndLeftAlone) {
  std::filesystem::create_directories(file.parent_path());
  const std::string rubbish(5000, 'x');
  std::ofstream(file) << rubbish;
  for (const Access access : {Access::read, Access::write})
    EXPECT_THAT(error_of(access),
                testing::AllOf(HasSubstr(file.string()), HasSubstr("damaged"), HasSubstr("move it away")));
  EXPECT_EQ(support::read_file(file), rubbish);
}

TEST_F(DatabaseTest, ATornFileIsNamed) {
  {
    Database db(file, Access::write);
    std::vector<Row> rows;
    for (int i = 0; i < 500; ++i) rows.push_back(test::row(std::to_string(i)));
    db.put(rows);
  }  // the log is merged into the file
  std::string bytes = *support::read_file(file);
  ASSERT_GT(bytes.size(), 50000u);
  bytes.replace(5000, 30000, 30000, '\x5a');
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_THAT(error_of(Access::read), HasSubstr("damaged"));
  EXPECT_EQ(support::read_file(file), bytes);
}

TEST_F(DatabaseTest, FilesOfOthersAndOfOtherVersions) {
  std::filesystem::create_directories(file.parent_path());
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "CREATE TABLE t (x)", nullptr, nullptr, nullptr);
  EXPECT_THAT(error_of(Access::write), HasSubstr("another program"));
  sqlite3_exec(db, "PRAGMA application_id=1131369589; PRAGMA user_version=7", nullptr, nullptr, nullptr);
  EXPECT_THAT(error_of(Access::write), HasSubstr("format 7"));
  sqlite3_close(db);
}

TEST_F(DatabaseTest, AFolderThatCannotBeMade) {
  std::ofstream(folder.path() / "deep") << "a file";
  EXPECT_THAT(error_of(Access::write), HasSubstr(file.string()));
}

// Processes start at once on a file that is not there yet, each writes rows of its own and one that all write
TEST_F(DatabaseTest, ManyProcesses) {
  constexpr int processes = 8, rounds = 25;
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        for (int round = 0; round < rounds; ++round) {
          Database db(file, Access::write);
          const std::vector rows{test::row(std::to_string(i * rounds + round)), test::row("shared")};
          db.put(rows);
          if (!db.find(rows[0].platform, rows[0].key)) ::_exit(2);
        }
        ::_exit(0);
      } catch (const std::exception& error) {
        ::fprintf(stderr, "%s\n", error.what());
        ::_exit(1);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Database(file, Access::read).rows().size(), std::size_t{processes * rounds + 1});
}

TEST_F(DatabaseTest, AFifoIsRefused) {
  std::filesystem::create_directory(file.parent_path());
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(error_of(Access::read), HasSubstr("is a FIFO"));
  EXPECT_THAT(error_of(Access::write), HasSubstr("is a FIFO"));
}

TEST_F(DatabaseTest, AFolderThatOthersMayWriteToIsRefused) {
  Database(file, Access::write).rows();
  std::filesystem::permissions(file.parent_path(), std::filesystem::perms::all);
  EXPECT_THAT(error_of(Access::read), HasSubstr("somebody else's"));
  EXPECT_THAT(error_of(Access::write), HasSubstr("somebody else's"));
}

}  // namespace
}  // namespace unisono::tuning
