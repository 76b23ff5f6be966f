#include "support/subprocess.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

Outcome shell(const std::string& script) { return run({.arguments = {"/bin/sh", "-c", script}, .folder = {}}); }

/// Waits for a process to end, its status asked for or not.
bool ends(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::stringstream text;
    text << file.rdbuf();
    const std::string stat = text.str();
    if (stat.empty() || stat.substr(stat.rfind(')') + 2, 1) == "Z") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class SubprocessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "unisono_subprocess_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { fs::remove_all(root); }

  /// A script that starts a process, writes its own number and that one's, and lasts.
  std::string long_script() const { return "sleep 1000 & echo $$ $! > numbers.new; mv numbers.new numbers; wait"; }
  std::pair<pid_t, pid_t> numbers() const {
    std::pair<pid_t, pid_t> result{0, 0};
    for (int i = 0; i < 500 && !fs::exists(root / "numbers"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::ifstream(root / "numbers") >> result.first >> result.second;
    return result;
  }
  fs::path root;
};

TEST_F(SubprocessTest, ExitCodeAndOutput) {
  const Outcome o = shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(o.exit_code, 7);
  EXPECT_EQ(o.signal, 0);
  EXPECT_EQ(o.output, "out\nerr\n");
  EXPECT_EQ(shell("true").exit_code, 0);
}

TEST_F(SubprocessTest, Signal) {
  const Outcome o = shell("kill -SEGV $$");
  EXPECT_EQ(o.exit_code, -1);
  EXPECT_EQ(o.signal, SIGSEGV);
}

TEST_F(SubprocessTest, ArgumentsAreNotRead) {
  EXPECT_EQ(run({.arguments = {"/bin/echo", "$HOME `ls` 'x' \"y\" ; *"}, .folder = {}}).output,
            "$HOME `ls` 'x' \"y\" ; *\n");
}

TEST_F(SubprocessTest, FolderAndEnvironment) {
  ::setenv("UNISONO_TEST_A", "old", 1);
  ::setenv("UNISONO_TEST_B", "kept", 1);
  const Outcome o = run({.arguments = {"/bin/sh", "-c", "pwd; echo $UNISONO_TEST_A $UNISONO_TEST_B"},
                         .folder = root,
                         .environment = {{"UNISONO_TEST_A", "new"}}});
  EXPECT_EQ(o.output, fs::canonical(root).string() + "\nnew kept\n");
}

TEST_F(SubprocessTest, ProgramsThatCannotBeStartedAreErrors) {
  for (const char* name : {"/no/such/program", "/", "/etc/passwd"}) {
    try {
      run({.arguments = {name}, .folder = {}});
      FAIL();
    } catch (const std::system_error& e) {
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos);
    }
  }
  EXPECT_THROW(run({.arguments = {"/bin/true"}, .folder = root / "absent"}), std::system_error);
}

TEST_F(SubprocessTest, LongOutputIsCutNotWaitedFor) {
  const Outcome o = shell("head -c 3000000 /dev/zero; exit 3");
  EXPECT_EQ(o.exit_code, 3);
  EXPECT_EQ(o.output.size(), std::size_t{1} << 20);
}

TEST_F(SubprocessTest, NothingOfThisProcessIsOpenInIt) {
  const int file = ::open("/dev/zero", O_RDONLY);  // without O_CLOEXEC
  // the shell itself opens nothing but the listing
  const Outcome o = run({.arguments = {"/bin/ls", "/proc/self/fd"}, .folder = {}});
  EXPECT_EQ(o.output, "0\n1\n2\n3\n");
  ::close(file);
}

TEST_F(SubprocessTest, InputIsEmpty) { EXPECT_EQ(shell("cat").output, ""); }

TEST_F(SubprocessTest, BlockedAndIgnoredSignalsAreNotHandedOn) {
  sigset_t set, before;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, &before);
  ::signal(SIGINT, SIG_IGN);
  EXPECT_EQ(shell("kill -TERM $$; exit 1").signal, SIGTERM);
  EXPECT_EQ(shell("kill -INT $$; exit 1").signal, SIGINT);
  ::signal(SIGINT, SIG_DFL);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(SubprocessTest, WhatItLeavesIsKilled) {
  const Outcome o = run({.arguments = {"/bin/sh", "-c", "sleep 1000 & echo $$ $! > numbers; exit 5"}, .folder = root});
  EXPECT_EQ(o.exit_code, 5);  // although the sleep holds the pipe of the output open
  EXPECT_TRUE(ends(numbers().second));
}

TEST_F(SubprocessTest, AllOfItEndsWhenThisProcessIsKilled) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    fs::remove(root / "numbers");
    const pid_t child = ::fork();
    if (child == 0) {
      run({.arguments = {"/bin/sh", "-c", long_script()}, .folder = root});
      ::_exit(0);
    }
    const auto [script, sleeper] = numbers();
    ASSERT_GT(sleeper, 0);
    EXPECT_EQ(::kill(sleeper, 0), 0);
    ::kill(child, signal);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(ends(script)) << signal;
    EXPECT_TRUE(ends(sleeper)) << signal;
  }
}

TEST_F(SubprocessTest, SeveralThreadsAtOnce) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int k = 0; k < 5; ++k) {
        const Outcome o = shell("echo " + std::to_string(i) + "; exit " + std::to_string(i));
        EXPECT_EQ(o.exit_code, i);
        EXPECT_EQ(o.output, std::to_string(i) + "\n");
      }
    });
  }
}

TEST_F(SubprocessTest, IgnoredChildrenDoNotMatter) {
  ::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(shell("exit 4").exit_code, 4);
  ::signal(SIGCHLD, SIG_DFL);
}

TEST(ShellText, QuotesWhatNeedsIt) {
  EXPECT_EQ(shell_text({"nvcc", "-DX=1", "a b", "it's", ""}), "nvcc -DX=1 'a b' 'it'\\''s' ''");
}

TEST_F(SubprocessTest, VariablesCanBeSetAndHidden) {
  ::setenv("UNISONO_TEST_HIDDEN", "secret", 1);
  const Outcome o = run({.arguments = {"/bin/sh", "-c", "echo [$UNISONO_TEST_HIDDEN] [$UNISONO_TEST_SET]"},
                         .folder = {},
                         .environment = {{"UNISONO_TEST_SET", "set"}},
                         .unset = {"UNISONO_TEST_HIDDEN"}});
  ::unsetenv("UNISONO_TEST_HIDDEN");
  EXPECT_EQ(o.output, "[] [set]\n");
}

}  // namespace
}  // namespace unisono::support
