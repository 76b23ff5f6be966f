#include "support/trust.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <optional>
#include <system_error>

#include "support/environment.hpp"
#include "support/printable.hpp"

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40;  // as the kernel follows

bool is_owner_trusted(const struct stat& info) { return info.st_uid == 0 || info.st_uid == ::geteuid(); }

struct User {
  std::string name;
  gid_t group = 0;
};

std::optional<User> user_of(uid_t id) {
  std::array<char, 16384> space{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(id, &entry, space.data(), space.size(), &found) != 0 || found == nullptr) return std::nullopt;
  return User{entry.pw_name, entry.pw_gid};
}

/// Distributions give each user such a group, and folders that it may write to (umask 002).
bool is_group_of_one(uid_t owner, gid_t group) {
  const auto user = user_of(owner);
  if (!user || user->group != group) return false;
  std::array<char, 16384> space{};
  ::group entry{};
  ::group* found = nullptr;
  if (::getgrgid_r(group, &entry, space.data(), space.size(), &found) != 0 || found == nullptr) return false;
  if (user->name != entry.gr_name) return false;
  for (char** member = entry.gr_mem; *member != nullptr; ++member)
    if (user->name != *member) return false;
  return true;
}

bool others_may_write(const struct stat& info) {
  if ((info.st_mode & S_IWOTH) != 0) return true;
  return (info.st_mode & S_IWGRP) != 0 && !is_group_of_one(info.st_uid, info.st_gid);
}

std::string name_of(uid_t id) {
  const auto user = user_of(id);
  return user ? fmt::format("user {} ({})", id, user->name) : fmt::format("user {}", id);
}

bool is_above(const fs::path& folder, const fs::path& below) {
  const fs::path rest = below.lexically_relative(folder);
  return !rest.empty() && rest != "." && *rest.begin() != "..";
}

/// Walks along a path as the kernel does, and looks at all that decides where it leads.
class Walk {
 public:
  explicit Walk(const fs::path& path) {
    std::error_code failed;
    push(fs::absolute(path, failed));
    if (const auto home = home_folder()) home_ = fs::canonical(*home, failed);
  }

  std::string run() {
    here_ = "/";
    std::string why = look(todo_.empty());
    while (why.empty() && !todo_.empty()) {
      const fs::path part = todo_.front();
      todo_.pop_front();
      if (part.empty() || part == "." || part == "/") continue;
      if (part == "..") {
        here_ = here_.parent_path();
        continue;
      }
      here_ /= part;
      why = look(todo_.empty());
    }
    return why.empty() ? above_home_ : why;
  }

 private:
  void push(const fs::path& path) {
    std::deque<fs::path> parts;
    for (const fs::path& part : path.relative_path())
      if (!part.empty()) parts.push_back(part);
    todo_.insert(todo_.begin(), parts.begin(), parts.end());
  }

  /// Why this part of the way is distrusted. What stands above the home does not count once the way leads through it.
  std::string look(bool last) {
    struct stat info {};
    if (::lstat(here_.c_str(), &info) != 0) return stop();
    if (S_ISLNK(info.st_mode)) return follow(info);
    if (!last && !S_ISDIR(info.st_mode)) return stop();
    std::string why = why_not(info, last);
    if (why.empty() && here_ == home_) above_home_.clear();
    if (why.empty() || !is_above(here_, home_)) return why;
    if (above_home_.empty()) above_home_ = std::move(why);
    return "";
  }

  std::string why_not(const struct stat& info, bool last) const {
    const std::string shown = printable(here_.string());
    if (!is_owner_trusted(info))
      return fmt::format(
          "'{}' belongs to {}, and not to this user ({}) or root: copy what is in it to a folder of "
          "yours, or name another",
          shown, name_of(info.st_uid), ::geteuid());
    const bool sticky = !last && (info.st_mode & S_ISVTX) != 0;
    if (!sticky && others_may_write(info))
      return fmt::format("others than its owner may write to '{}' (mode {:o}): chmod go-w it, or name another", shown,
                         static_cast<unsigned>(info.st_mode & 07777));
    return "";
  }

  std::string follow(const struct stat& info) {
    if (!is_owner_trusted(info))
      return fmt::format("the symbolic link '{}' belongs to {}, and not to this user ({}) or root",
                         printable(here_.string()), name_of(info.st_uid), ::geteuid());
    std::error_code failed;
    const fs::path target = fs::read_symlink(here_, failed);
    if (failed || ++links_ > most_links) return stop();
    here_ = target.is_absolute() ? fs::path("/") : here_.parent_path();
    push(target);
    return "";
  }

  std::string stop() {
    todo_.clear();  // nothing is there: whoever opens it says so
    return "";
  }

  std::deque<fs::path> todo_;
  fs::path here_, home_;
  std::string above_home_;
  int links_ = 0;
};

}  // namespace

bool is_own(const struct stat& info) { return is_owner_trusted(info) && !others_may_write(info); }

std::string why_distrusted(const fs::path& path) { return Walk(path).run(); }

}  // namespace unisono::support
