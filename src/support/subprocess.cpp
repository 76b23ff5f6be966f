#include "support/subprocess.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace unisono::support {
namespace {

constexpr std::size_t output_limit = 1 << 20;

/// What the supervisor says of the program, through a pipe.
struct Report {
  int error = 0;   ///< errno of what failed before the program ran
  int status = 0;  ///< as wait() gives it
};

struct Pipe {
  int in = -1, out = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    out = ends[0], in = ends[1];
  }
  ~Pipe() { close_in(), close_out(); }
  void close_in() { close(in); }
  void close_out() { close(out); }

 private:
  static void close(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

/// All that the new process needs, laid out before the fork: after it, only functions that a signal handler may call.
struct Plan {
  std::vector<std::string> environment;
  std::vector<char*> argv, envp;
  const char* folder = nullptr;
  int output = -1, report = -1;
  pid_t parent = 0;
};

/// Whatever the program has started and left, and this process, which leads the group.
void kill_group(int) { ::kill(-::getpid(), SIGKILL); }

/// Writes to the supervisor's end of the pipe; the first report counts.
void tell(Report what) { [[maybe_unused]] const auto written = ::write(3, &what, sizeof what); }

[[noreturn]] void end(Report what) {
  tell(what);
  kill_group(0);
  ::_exit(0);
}

/// Signals as a program expects them at its start.
void default_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) ::sigaction(s, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// No lock, socket or file of the parent stays open, unless this fails: then its end of the report does, for one.
bool only_own_files(const Plan& plan) {
  const int output = ::fcntl(plan.output, F_DUPFD, 16),
            report = ::fcntl(plan.report, F_DUPFD, 16);  // above those below
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (output < 0 || report < 0 || nothing < 0) return false;
  if (::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 || ::dup2(output, STDERR_FILENO) < 0)
    return false;
  if (plan.report != 3 && ::dup2(report, 3) < 0) return false;
  if (::fcntl(3, F_SETFD, FD_CLOEXEC) != 0) return false;
  ::close_range(4, ~0U, 0);
  return true;
}

/// The process between this one and the program. It stands at the head of the group, is told when its parent ends, and
/// then kills the group; without it only the program itself, not what that has started, would be ended.
[[noreturn]] void supervise(const Plan& plan) {
  ::setpgid(0, 0);
  default_signals();
  struct sigaction action {};
  action.sa_handler = kill_group;
  ::sigaction(SIGTERM, &action, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != plan.parent) ::_exit(0);  // it ended before the line above
  if (!only_own_files(plan)) {                 // file 3 may be the parent's
    const Report what{errno, 0};
    [[maybe_unused]] const auto written = ::write(plan.report, &what, sizeof what);
    ::_exit(0);
  }

  const pid_t child = ::vfork();
  if (child == 0) {
    if (plan.folder == nullptr || ::chdir(plan.folder) == 0) ::execve(plan.argv[0], plan.argv.data(), plan.envp.data());
    tell({errno, 0});
    ::_exit(127);
  }
  if (child < 0) end({errno, 0});
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) end({errno, 0});
  end({0, status});
}

std::vector<std::string> merged_environment(const Command& command) {
  std::vector<std::string> result;
  const auto is_left_out = [&](std::string_view line) {
    for (const auto& [name, value] : command.environment) {
      if (line.starts_with(name + "=")) return true;
    }
    for (const std::string& name : command.unset) {
      if (line.starts_with(name + "=")) return true;
    }
    return false;
  };
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    if (!is_left_out(*line)) result.emplace_back(*line);
  }
  for (const auto& [name, value] : command.environment) result.emplace_back(name).append("=").append(value);
  return result;
}

/// Until all writers have closed their end. Throws std::system_error.
std::string read_all(int file) {
  std::string text;
  std::array<char, 16384> buffer{};
  while (true) {
    const ssize_t n = ::read(file, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::system_error(errno, std::generic_category(), "reading what a program says");
    if (n == 0) return text;
    text.append(buffer.data(), std::min(static_cast<std::size_t>(n), output_limit - text.size()));
  }
}

pid_t fork_now() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34) && !defined(__SANITIZE_THREAD__)
  return ::_Fork();  // runs no handlers of other libraries (the sanitizer must know of the fork)
#else
  return ::fork();
#endif
}

pid_t start(const Plan& plan) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of this process runs in the new one
  const pid_t supervisor = fork_now();
  if (supervisor == 0) supervise(plan);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return supervisor;
}

/// The supervisor, until it has ended; if nobody waits for that, it is told to end with all that it has started.
class Supervisor {
 public:
  explicit Supervisor(const Plan& plan) : process_(start(plan)), error_(errno) {}
  ~Supervisor() {
    if (process_ < 0) return;
    ::kill(process_, SIGTERM);
    wait();
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int error() const { return process_ < 0 ? error_ : 0; }
  void wait() {
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
  }

 private:
  pid_t process_;
  int error_;
};

}  // namespace

Outcome run(const Command& command) {
  Pipe output, report;
  Plan plan;
  plan.environment = merged_environment(command);
  for (const std::string& a : command.arguments) plan.argv.push_back(const_cast<char*>(a.c_str()));
  for (const std::string& e : plan.environment) plan.envp.push_back(const_cast<char*>(e.c_str()));
  plan.argv.push_back(nullptr), plan.envp.push_back(nullptr);
  plan.folder = command.folder.empty() ? nullptr : command.folder.c_str();
  plan.output = output.in, plan.report = report.in, plan.parent = ::getpid();

  Supervisor supervisor(plan);
  output.close_in(), report.close_in();
  if (const int error = supervisor.error(); error != 0)
    throw std::system_error(error, std::generic_category(), "cannot start a process");
  Outcome outcome{.output = read_all(output.out)};
  const std::string said = read_all(report.out);
  supervisor.wait();
  Report what;
  if (said.size() < sizeof what) return outcome.exit_code = -1, outcome.signal = SIGKILL, outcome;
  std::memcpy(&what, said.data(), sizeof what);
  if (what.error != 0) throw std::system_error(what.error, std::generic_category(), command.arguments.at(0));
  outcome.exit_code = WIFEXITED(what.status) ? WEXITSTATUS(what.status) : -1;
  outcome.signal = WIFSIGNALED(what.status) ? WTERMSIG(what.status) : 0;
  return outcome;
}

std::string shell_text(const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& a : arguments) {
    const bool plain = !a.empty() && a.find_first_not_of(
                                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                         "-_=+./,:@%") == std::string::npos;
    std::string quoted = "'";
    for (const char c : a) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += (text.empty() ? "" : " ") + (plain ? a : quoted + "'");
  }
  return text;
}

}  // namespace unisono::support
