#pragma once
/// The user's measured plans: an SQLite file that any number of processes may read and write at once.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tuning/row.hpp"

namespace coda::tuning {

/// One connection, for one thread. Every error is a UserError that names the file and says what to do; a file that is
/// damaged, or is something else, is left as it is.
class Database {
 public:
  enum class Access { read, write };
  /// `write` makes the file and its folder if there is none; `read` throws then.
  Database(const std::filesystem::path& file, Access access);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// What was measured for this key at this place; the newest where the place's driver is unknown.
  std::optional<Row> find(const Place& place, const Key& key) const;
  std::vector<Row> rows() const;
  /// Adds rows, or replaces those of the same place and key: all or none.
  void put(std::span<const Row> rows);
  /// Removes the rows of a place; returns how many.
  std::size_t remove(const Place& place);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coda::tuning
