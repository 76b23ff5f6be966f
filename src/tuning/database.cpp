#include "tuning/database.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <limits>
#include <new>
#include <system_error>

#include "support/files.hpp"
#include "support/regular_file.hpp"
#include "support/trust.hpp"
#include "unisono/error.hpp"

namespace unisono::tuning {
namespace {

constexpr int application = 0x436f5475;  // "CoTu": marks the file as ours
constexpr int format_version = 1;

constexpr const char* columns =
    "device, multiprocessors, driver, kernels, problem, epilogue, plan, measured_us, predicted_us, at";

constexpr const char* schema = R"(
CREATE TABLE IF NOT EXISTS plans (
  device TEXT NOT NULL, multiprocessors INTEGER NOT NULL, driver TEXT NOT NULL, kernels TEXT NOT NULL,
  problem TEXT NOT NULL, epilogue TEXT NOT NULL,
  plan TEXT NOT NULL, measured_us REAL NOT NULL, predicted_us REAL NOT NULL, at TEXT NOT NULL,
  PRIMARY KEY (device, multiprocessors, kernels, problem, epilogue, driver)) WITHOUT ROWID
)";

}  // namespace

struct Database::Impl {
  std::filesystem::path file;
  int patience_ms;
  sqlite3* db = nullptr;
  bool empty = false;  ///< somebody has just made the file

  ~Impl() { sqlite3_close(db); }

  void open(bool write);
  void check_kind();
  void make_table();

  [[noreturn]] void fail(int code, const std::string& doing) const {
    const char* const detail = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
    std::string what = fmt::format("{}: {} failed: {}", file.string(), doing, detail);
    switch (code & 0xff) {
      case SQLITE_NOTADB:
      case SQLITE_CORRUPT:
        what = fmt::format(
            "{} is not a database of measured plans, or is damaged ({}); move it away, then tune again or "
            "import exported rows with `unisono tune --import`",
            file.string(), detail);
        break;
      case SQLITE_BUSY:
        throw DatabaseLocked(fmt::format("{}; another process has kept it locked for {} s", what,
                                         static_cast<double>(patience_ms) / 1000));
      case SQLITE_CANTOPEN:
      case SQLITE_READONLY:
      case SQLITE_PERM: what += "; UNISONO_TUNING=FILE names another one, UNISONO_TUNING=off does without"; break;
      default: break;
    }
    throw UserError(what);
  }
  void check(int code, const char* doing) const {
    if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW) fail(code, doing);
  }
  /// Readers and one writer do not hold one another up. Who changes a new file gets no patience from SQLite here.
  void use_log() const {
    int code = SQLITE_BUSY;
    for (int tries = 0; tries < patience_ms / 10 && (code & 0xff) == SQLITE_BUSY; ++tries) {
      if (tries > 0) sqlite3_sleep(10);
      code = sqlite3_exec(db, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
    }
    check(code, "making it");
    execute("PRAGMA synchronous=NORMAL", "making it");
  }
  void execute(const std::string& sql, const char* doing) const {
    check(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), doing);
  }
};

namespace {

/// A prepared statement.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& sql)
      : prepared_(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement_, nullptr)) {}
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  int prepared() const { return prepared_; }
  int step() { return bound_ == SQLITE_OK ? sqlite3_step(statement_) : bound_; }
  void reset() { sqlite3_reset(statement_), next_ = 0, bound_ = SQLITE_OK; }
  Statement& bind(const std::string& text) {
    return bound(sqlite3_bind_text(statement_, ++next_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT));
  }
  Statement& bind(int number) { return bound(sqlite3_bind_int(statement_, ++next_, number)); }
  Statement& bind(double number) { return bound(sqlite3_bind_double(statement_, ++next_, number)); }
  /// Throws std::bad_alloc for a text that SQLite has no memory for: an empty plan would be taken for one.
  std::string text(int column) const {
    const unsigned char* const bytes = sqlite3_column_text(statement_, column);
    if (bytes == nullptr && sqlite3_column_type(statement_, column) != SQLITE_NULL) throw std::bad_alloc();
    return bytes == nullptr ? "" : reinterpret_cast<const char*>(bytes);
  }
  /// Bytes of a text; characters beyond the limit are never copied.
  int length(int column) const { return sqlite3_column_bytes(statement_, column); }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double number(int column) const { return sqlite3_column_double(statement_, column); }

 private:
  Statement& bound(int code) {
    if (code != SQLITE_OK) bound_ = code;  // out of memory: a row of nothing would be looked for
    return *this;
  }

  sqlite3_stmt* statement_ = nullptr;
  int prepared_;
  int bound_ = SQLITE_OK;
  int next_ = 0;
};

/// Throws UserError for a row that no version has written.
Row row_of(const Statement& s, const std::filesystem::path& file) {
  for (const int column : {0, 2, 3, 4, 5, 6, 9})
    if (s.length(column) > static_cast<int>(longest_text))
      throw UserError(fmt::format("{}: column {} of a row has {} bytes, at most {} are read; move the file away",
                                  file.string(), column + 1, s.length(column), longest_text));
  if (s.integer(1) < 1 || s.integer(1) > std::numeric_limits<int>::max())
    throw UserError(
        fmt::format("{}: a row belongs to a GPU of {} SMs; move the file away", file.string(), s.integer(1)));
  return {.platform = {s.text(0), static_cast<int>(s.integer(1)), s.text(2), s.text(3)},
          .key = {s.text(4), s.text(5)},
          .plan = s.text(6),
          .measured_us = s.number(7),
          .predicted_us = s.number(8),
          .when = s.text(9)};
}

}  // namespace

namespace {

/// SQLite would wait for what comes out of a FIFO, and believe whatever schema it finds.
void check_file(const std::filesystem::path& file) {
  if (const std::string why = support::why_not_regular(file); !why.empty()) throw UserError(why);
  if (const std::string why = support::why_distrusted(file); !why.empty())
    throw UserError(fmt::format("the measured plans in {} may be somebody else's: {}", file.string(), why));
}

}  // namespace

// Readers take part in the write-ahead log, too; of a folder that is read-only the file alone is read
void Database::Impl::open(bool write) {
  int code = sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READWRITE | (write ? SQLITE_OPEN_CREATE : 0), nullptr);
  if (code != SQLITE_OK && !write) {
    sqlite3_close(db);
    code = sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
  }
  check(code, "opening it");
  sqlite3_busy_timeout(db, patience_ms);
}

// Whether somebody has just made the file, and otherwise whether it is one of ours
void Database::Impl::check_kind() {
  Statement kind(db,
                 "SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_master), "
                 "(SELECT user_version FROM pragma_user_version)");
  check(kind.prepared(), "reading it");
  check(kind.step(), "reading it");
  empty = kind.number(1) == 0;
  const auto found = static_cast<int>(kind.number(0)), version = static_cast<int>(kind.number(2));
  kind.reset();
  if (!empty && found != application)
    throw UserError(
        fmt::format("{} is a database of another program; UNISONO_TUNING=FILE names another file", file.string()));
  if (!empty && version != format_version)
    throw UserError(
        fmt::format("{} has format {}, this version of Unisono reads format {}; export it with the version that "
                    "wrote it, and import the text into another file",
                    file.string(), version, format_version));
}

void Database::Impl::make_table() {
  execute("BEGIN IMMEDIATE", "making it");
  execute(fmt::format("PRAGMA application_id={}", application), "making it");
  execute(fmt::format("PRAGMA user_version={}", format_version), "making it");
  execute(schema, "making it");
  execute("COMMIT", "making it");
  empty = false;
}

Database::Database(const std::filesystem::path& file, Access access, double patience)
    : impl_(new Impl{.file = file, .patience_ms = static_cast<int>(1000 * patience)}) {
  const bool write = access == Access::write;
  check_file(file);
  if (write && file.has_parent_path()) {
    try {
      support::make_folders(file.parent_path());
    } catch (const std::system_error& error) {
      throw UserError(fmt::format("{} cannot be made: {}", file.string(), error.what()));
    }
  }
  impl_->open(write);
  impl_->check_kind();
  if (!write) return;
  impl_->use_log();
  if (impl_->empty) impl_->make_table();
}

Database::~Database() = default;

std::optional<Row> Database::find(const Platform& platform, const Key& key) const {
  if (impl_->empty) return std::nullopt;
  Statement s(impl_->db,
              fmt::format("SELECT {} FROM plans WHERE device=? AND multiprocessors=? AND kernels=? AND problem=? AND "
                          "epilogue=? {} ORDER BY at DESC LIMIT 1",
                          columns, platform.driver.empty() ? "" : "AND driver=?"));
  impl_->check(s.prepared(), "reading it");
  s.bind(platform.device).bind(platform.sms).bind(platform.kernels).bind(key.problem).bind(key.epilogue);
  if (!platform.driver.empty()) s.bind(platform.driver);
  const int code = s.step();
  impl_->check(code, "reading it");
  if (code == SQLITE_DONE) return std::nullopt;
  return row_of(s, impl_->file);
}

std::vector<Row> Database::rows() const {
  if (impl_->empty) return {};
  Statement s(impl_->db, fmt::format("SELECT {} FROM plans", columns));
  impl_->check(s.prepared(), "reading it");
  std::vector<Row> all;
  int code = 0;
  while ((code = s.step()) == SQLITE_ROW) all.push_back(row_of(s, impl_->file));
  impl_->check(code, "reading it");
  return all;
}

void Database::put(std::span<const Row> rows) {
  impl_->execute("BEGIN IMMEDIATE", "writing it");
  try {
    Statement s(impl_->db, fmt::format("INSERT OR REPLACE INTO plans ({}) VALUES (?,?,?,?,?,?,?,?,?,?)", columns));
    impl_->check(s.prepared(), "writing it");
    for (const Row& r : rows) {
      s.bind(r.platform.device).bind(r.platform.sms).bind(r.platform.driver).bind(r.platform.kernels);
      s.bind(r.key.problem).bind(r.key.epilogue).bind(r.plan).bind(r.measured_us).bind(r.predicted_us).bind(r.when);
      impl_->check(s.step(), "writing it");
      s.reset();
    }
    impl_->execute("COMMIT", "writing it");
  } catch (...) {
    sqlite3_exec(impl_->db, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

std::size_t Database::remove(const Platform& platform) {
  Statement s(impl_->db, "DELETE FROM plans WHERE device=? AND multiprocessors=? AND kernels=? AND driver=?");
  impl_->check(s.prepared(), "writing it");
  s.bind(platform.device).bind(platform.sms).bind(platform.kernels).bind(platform.driver);
  impl_->check(s.step(), "writing it");
  return static_cast<std::size_t>(sqlite3_changes(impl_->db));
}

}  // namespace unisono::tuning
