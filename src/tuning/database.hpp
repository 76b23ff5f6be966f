#pragma once
/// The user's measured plans: an SQLite file that any number of processes may read and write at once.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tuning/row.hpp"
#include "unisono/error.hpp"

namespace unisono::tuning {

/// Another process has kept the file locked for longer than the patience.
class DatabaseLocked : public UserError {
 public:
  using UserError::UserError;
};

/// How long to wait for other processes that write, in seconds: where a file is changed or listed, and where a plan is
/// looked up while compiling.
inline constexpr double patience_of_a_writer = 20, patience_of_a_lookup = 0.2;

/// One connection, for one thread. Every error is a UserError that names the file and says what to do; a file that is
/// damaged, is something else, or may have been written by somebody else (support::why_distrusted), is left as it is.
class Database {
 public:
  enum class Access { read, write };
  /// `write` makes the file and its folder if there is none; `read` throws then.
  Database(const std::filesystem::path& file, Access access, double patience = patience_of_a_writer);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// What was measured for this key on this platform; the newest where the platform's driver is unknown.
  std::optional<Row> find(const Platform& platform, const Key& key) const;
  std::vector<Row> rows() const;
  /// Adds rows, or replaces those of the same platform and key: all or none.
  void put(std::span<const Row> rows);
  /// Removes the rows of a platform; returns how many.
  std::size_t remove(const Platform& platform);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono::tuning
