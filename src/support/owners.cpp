// Names that say which process made something, and whether it still runs.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <system_error>

#include "support/files.hpp"
#include "support/hash.hpp"

namespace unisono::support {
namespace {

constexpr double day = 24 * 3600;

/// This host, since it was started, and the numbers that processes have in this container.
std::string host_digits() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::array<char, 64> space{};
  [[maybe_unused]] const ssize_t n = ::readlink("/proc/self/ns/pid", space.data(), space.size() - 1);
  Hasher h;
  // files of /proc have no size: read_file would give nothing
  std::array<char, 64> boot{};
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    if (std::fgets(boot.data(), boot.size(), file) == nullptr) boot[0] = '\0';
    std::fclose(file);
  }
  h.field(name.data()).field(space.data()).field(boot.data());
  return h.digest().substr(0, 12);
}

/// What /proc says of a process. A process that has no descriptor left cannot tell whether another one runs.
struct Running {
  enum class State { ended, runs, unknown } state = State::unknown;
  std::uint64_t start = 0;  ///< in the kernel's ticks since boot
};

Running read_line(std::string_view line) {
  // "1234 (any name) S …": the start is field 22, the state field 3
  const std::size_t close = line.rfind(')');
  if (close == std::string_view::npos || close + 2 >= line.size()) return {};
  line.remove_prefix(close + 2);
  if (line.starts_with('Z') || line.starts_with('X'))
    return {Running::State::ended};  // nobody has asked for its status yet
  for (int field = 3; field < 22; ++field) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return {};
    line.remove_prefix(blank + 1);
  }
  Running process{Running::State::runs};
  if (std::from_chars(line.data(), line.data() + line.size(), process.start).ec != std::errc{}) return {};
  return process;
}

Running running(long pid) {
  std::array<char, 1024> text{};
  std::FILE* file = std::fopen(fmt::format("/proc/{}/stat", pid).c_str(), "re");
  const auto ended = [] { return errno == ENOENT || errno == ESRCH; };
  if (file == nullptr) return {ended() ? Running::State::ended : Running::State::unknown};
  errno = 0;
  const std::size_t n = std::fread(text.data(), 1, text.size(), file);
  const bool gone = n == 0 && ended();  // since it was opened
  std::fclose(file);
  return gone ? Running{Running::State::ended} : read_line({text.data(), n});
}

/// There is none, as far as signals tell.
bool takes_no_signal(long pid) { return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

struct Owner {
  std::string_view host;
  long pid = 0;
  std::uint64_t start = 0;
};

/// Reads "host-pid-start-counter".
std::optional<Owner> parse(std::string_view name) {
  Owner owner;
  const std::size_t dash = name.find('-');
  if (dash != 12) return std::nullopt;
  owner.host = name.substr(0, dash);
  const char *at = name.data() + dash + 1, *end = name.data() + name.size();
  const auto pid = std::from_chars(at, end, owner.pid);
  if (pid.ec != std::errc{} || pid.ptr == end || *pid.ptr != '-') return std::nullopt;
  const auto start = std::from_chars(pid.ptr + 1, end, owner.start);
  if (start.ec != std::errc{} || start.ptr == end || *start.ptr != '-') return std::nullopt;
  return owner;
}

const std::string& host() {
  static const std::string digits = host_digits();
  return digits;
}

}  // namespace

std::string unique_name() {
  static std::atomic<unsigned> counter{0};
  const long pid = ::getpid();  // not kept: a fork changes it
  return fmt::format("{}-{}-{}-{}", host(), pid, running(pid).start, counter.fetch_add(1));
}

bool is_unique_name(std::string_view name) {
  const auto owner = parse(name);
  if (!owner || owner->host.find_first_not_of("0123456789abcdef") != std::string_view::npos) return false;
  const std::string_view counter = name.substr(name.rfind('-') + 1);
  return !counter.empty() && counter.find_first_not_of("0123456789") == std::string_view::npos;
}

bool owner_is_gone(std::string_view name, double age_seconds) {
  const auto owner = parse(name);
  if (!owner) return false;
  if (owner->host != host()) return age_seconds > day;
  const Running process = running(owner->pid);
  // without /proc now, or when the name was made
  if (process.state == Running::State::unknown || owner->start == 0) return takes_no_signal(owner->pid);
  return process.state == Running::State::ended || process.start != owner->start;
}

std::size_t sweep(const std::filesystem::path& folder) {
  std::size_t removed = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) != 0) continue;
    const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    if (!owner_is_gone(it->path().filename().string(), now - static_cast<double>(info.st_mtime))) continue;
    std::error_code ignored;
    std::filesystem::remove_all(it->path(), ignored);
    removed += !std::filesystem::exists(std::filesystem::symlink_status(it->path(), ignored));
  }
  return removed;
}

}  // namespace unisono::support
