#pragma once
/// Tells the user on standard error what is under way, once it takes more than a second.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace unisono::command {

/// From its making to its end a thread of its own watches the clock. On a terminal one line is rewritten each half
/// second and wiped at the end; elsewhere a line is written when a step has taken a second, and then every ten.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Ends it early: before something is printed.
  void finish();
  /// What is under way now: "compiling 19 regions".
  void step(std::string what);
  /// What is said behind it: " (3 of 7)".
  void part(std::string text);
  /// How much of it is done.
  void done(std::size_t part, std::size_t whole);

 private:
  void watch();
  void show(double seconds);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::string what_, part_;
  unsigned steps_ = 0;
  bool ending_ = false;
  bool terminal_ = false;
  bool shown_ = false;
  std::thread thread_;  // last: it reads the others
};

}  // namespace unisono::command
