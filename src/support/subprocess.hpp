#pragma once
/// Programs of others, run without a shell, that never outlive this process.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace unisono::support {

struct Command {
  std::vector<std::string> arguments;  ///< the program, with its folder, and what it is given
  std::filesystem::path folder;        ///< where it runs; empty: here
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< set beside what this process has
  std::vector<std::string> unset = {};  ///< variables of this process that it does not see
};

struct Outcome {
  int exit_code = 0;  ///< -1 if a signal ended it
  int signal = 0;
  std::string output;  ///< standard output and standard error, the first megabyte
};

/// Runs a program to its end. It stands in a process group of its own with all that it starts; when it ends, or this
/// process or the calling thread does (SIGKILL included), the whole group is killed. Throws std::system_error with the
/// program's name if it cannot be started.
Outcome run(const Command& command);

/// As one would type it in a shell.
std::string shell_text(const std::vector<std::string>& arguments);

}  // namespace unisono::support
