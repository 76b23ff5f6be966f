// Programs of others are run, and what ended processes have left is removed, while each call fails once in turn: an
// error each time, no process is left behind, and nothing of a process that still runs is removed.

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>

#include "cycle.hpp"
#include "jit/compiler.hpp"
#include "support/files.hpp"
#include "support/subprocess.hpp"

namespace unisono::faults {
namespace {

namespace fs = std::filesystem;

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// What the program says is longer than a string without memory of its own
bool program() {
  if (has_children()) return false;  // of the time before
  const support::Outcome outcome =
      support::run({.arguments = {"/bin/sh", "-c", "echo what it says, and more; exit 3"}, .folder = {}});
  if (outcome.signal != 0) throw std::system_error(ECHILD, std::generic_category(), "it was ended");
  return outcome.output == "what it says, and more\n" && outcome.exit_code == 3;
}

// Once it is known how it ended, it does not matter whether somebody else has waited for it
const Harmless known_end{"close", "waitpid"};

TEST(ProcessFaults, Files) { each_fails_once(Kind::file, program, known_end); }
TEST(ProcessFaults, FilesOfTheChild) { each_fails_once(Kind::child, program); }
TEST(ProcessFaults, Allocations) { each_fails_once(Kind::allocation, program); }

class NvccFaults : public ::testing::Test {
 protected:
  NvccFaults() {
    ::setenv("TMPDIR", folder.path().c_str(), 1);
    std::ofstream(nvcc) << "#!/bin/sh\n"
                           "case $1 in --version) echo 'release 13.0, V13.0.88'; exit 0;; esac\n"
                           "echo what nvcc says; exit 1\n";
    fs::permissions(nvcc, fs::perms::owner_all);
  }
  ~NvccFaults() override { ::unsetenv("TMPDIR"); }

  bool compiled() const {
    const jit::Request request{.source = "kernel k", .headers = {}, .entry = "k", .title = "title", .arch = "sm_90a"};
    const jit::Compiled result = jit::make_nvcc(nvcc)->compile(request);
    if (result.log.find("what nvcc says") == std::string::npos || result.log.find("signal") != std::string::npos)
      throw CompileError(result.log);
    return result.cubin.empty() && !has_children();
  }

  support::TemporaryFolder folder{fs::temp_directory_path()};
  fs::path nvcc = folder.path() / "nvcc";
};

TEST_F(NvccFaults, Files) {
  // the lock of a folder (flock), what others have left (lstat), folders that may be there (stat)
  each_fails_once(Kind::file, [&] { return compiled(); }, {"close", "waitpid", "flock", "lstat", "stat"});
}
TEST_F(NvccFaults, FilesOfTheChildren) {
  each_fails_once(Kind::child, [&] { return compiled(); });
}

// A folder of this process, and one of a process that has ended
TEST(LeftoverFaults, NothingOfALiveProcessIsRemoved) {
  const support::TemporaryFolder folder{fs::temp_directory_path()};
  const support::TemporaryFolder ours(folder.path());
  const fs::path ended = folder.path() / support::unique_name();
  each_fails_once(Kind::file,
                  [&] {
                    fs::create_directories(ended);
                    support::sweep(folder.path());
                    return fs::exists(ours.path());
                  },
                  {"open", "flock", "stat", "lstat", "close"});
  EXPECT_FALSE(fs::exists(ended));
}

// Without a lock a folder has a name that everybody leaves alone for a day
TEST(LeftoverFaults, FoldersThatCannotBeLockedStay) {
  const support::TemporaryFolder folder{fs::temp_directory_path()};
  each_fails_once(Kind::file,
                  [&] {
                    const support::TemporaryFolder ours(folder.path());
                    support::sweep(folder.path());
                    return fs::exists(ours.path());
                  },
                  {"flock", "stat", "lstat", "close", "open"});
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// The host's part of a name is made once in a process
TEST(LeftoverFaultsDeathTest, NamesOfAProcessThatCannotReadItsBoot) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto judge = [] {
    const Counting counting(Kind::file, 0);
    const std::string name = support::unique_name();
    std::exit(failed_call(Kind::file) == "fopen" && support::is_unique_name(name) ? 0 : 1);
  };
  EXPECT_EXIT(judge(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace unisono::faults
