#include "rendezvous/journal/sqlite_file.hpp"

#include "rendezvous/base/private_folders.hpp"
#include "rendezvous/core/messages/settings.hpp"
#include "rendezvous/journal/folder_lock.hpp"

#include <charconv>
#include <cstring>
#include <sqlite3.h>
#include <unistd.h>

namespace ddprun::journal {
namespace {

// Grows with each change of the tables.
constexpr int schema_version = 3;

// No run's timers add up to more.
constexpr duration timers_max = 4 * timer_max;

constexpr const char* make_tables =
    "CREATE TABLE IF NOT EXISTS runs ("
    "run_id TEXT PRIMARY KEY, "
    "instance TEXT NOT NULL, "  // to_hex()
    "rounds_reserved INTEGER NOT NULL, "
    "restarts_used INTEGER NOT NULL, "
    "nodes INTEGER NOT NULL, "
    "gone_after_us INTEGER NOT NULL, "
    "lost_after_us INTEGER NOT NULL, "
    "exit_code INTEGER, "  // NULL: open
    "text TEXT NOT NULL, "
    "changed_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, "
    "restarts_forgiven INTEGER NOT NULL DEFAULT 0, "
    "job TEXT, "  // its digest; NULL: of a daemon that did not ask
    "program TEXT NOT NULL DEFAULT '', "
    "started TEXT NOT NULL DEFAULT '', "
    "node TEXT NOT NULL DEFAULT '', "
    // When a daemon that keeps it was alive last: see record_age.hpp.
    "boot TEXT NOT NULL DEFAULT '', "
    "alive_up INTEGER NOT NULL DEFAULT 0, "
    "alive_at INTEGER NOT NULL DEFAULT 0"
    ") STRICT, WITHOUT ROWID";

// Of a file of version 1, whose rows stay.
constexpr const char* add_restarts_forgiven =
    "ALTER TABLE runs ADD COLUMN restarts_forgiven INTEGER NOT NULL DEFAULT 0";

// Of one of version 2, too. When its daemon was alive last is not known: of a run that is over,
// when that was written; of one that is open, until now.
constexpr const char* add_jobs =
    "ALTER TABLE runs ADD COLUMN job TEXT; "
    "ALTER TABLE runs ADD COLUMN program TEXT NOT NULL DEFAULT ''; "
    "ALTER TABLE runs ADD COLUMN started TEXT NOT NULL DEFAULT ''; "
    "ALTER TABLE runs ADD COLUMN node TEXT NOT NULL DEFAULT ''; "
    "ALTER TABLE runs ADD COLUMN boot TEXT NOT NULL DEFAULT ''; "
    "ALTER TABLE runs ADD COLUMN alive_up INTEGER NOT NULL DEFAULT 0; "
    "ALTER TABLE runs ADD COLUMN alive_at INTEGER NOT NULL DEFAULT 0; "
    "UPDATE runs SET alive_at = CAST(strftime('%s', "
    "CASE WHEN exit_code IS NULL THEN 'now' ELSE changed_at END) AS INTEGER)";

// Daemons that live for less than an hour would never forget them.
constexpr const char* forget_finished =
    "DELETE FROM runs WHERE exit_code IS NOT NULL AND nodes = 0 AND "
    "changed_at < datetime('now', '-1 hour')";

constexpr const char* keep_words =
    "INSERT OR REPLACE INTO runs "
    "(run_id, instance, rounds_reserved, restarts_used, exit_code, text, nodes, gone_after_us, "
    "lost_after_us, restarts_forgiven, job, program, started, node, boot, alive_up, alive_at) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";

constexpr const char* show_life =
    "UPDATE runs SET boot = ?1, alive_up = ?2, alive_at = ?3 WHERE exit_code IS NULL";

std::string text_of(sqlite3_stmt* row, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(row, column))};
}

bool put(sqlite3_stmt* to, int place, const std::string& text) {
  return sqlite3_bind_text(to, place, text.data(), static_cast<int>(text.size()),
                           SQLITE_TRANSIENT) == SQLITE_OK;
}

bool put(sqlite3_stmt* to, int place, std::uint64_t number) {
  return sqlite3_bind_int64(to, place, static_cast<sqlite3_int64>(number)) == SQLITE_OK;
}

// False where the row holds what this program never writes.
bool read_row(sqlite3_stmt* row, core::run_record& record) {
  record.run_id = text_of(row, 0);
  const std::string instance = text_of(row, 1);
  const auto [end, error] =
      std::from_chars(instance.data(), instance.data() + instance.size(), record.instance, 16);
  const sqlite3_int64 rounds = sqlite3_column_int64(row, 2);
  const sqlite3_int64 restarts = sqlite3_column_int64(row, 3);
  if (error != std::errc() || end != instance.data() + instance.size()) return false;
  if (record.run_id.empty() || record.instance == 0 || rounds < 0 || restarts < 0) return false;
  if (restarts > std::int64_t{UINT32_MAX}) return false;
  const sqlite3_int64 forgiven = sqlite3_column_int64(row, 9);
  if (forgiven < 0 || forgiven > restarts) return false;
  record.restarts_forgiven = static_cast<std::uint32_t>(forgiven);
  record.rounds_reserved = static_cast<round_number>(rounds);
  record.restarts_used = static_cast<std::uint32_t>(restarts);
  if (sqlite3_column_type(row, 4) != SQLITE_NULL) {
    record.end = core::run_end{sqlite3_column_int(row, 4), text_of(row, 5)};
  }
  const sqlite3_int64 nodes = sqlite3_column_int64(row, 6);
  if (nodes < 0 || nodes > std::int64_t{UINT32_MAX}) return false;
  record.nodes = static_cast<std::uint32_t>(nodes);
  record.gone_after = std::chrono::microseconds(sqlite3_column_int64(row, 7));
  record.lost_after = std::chrono::microseconds(sqlite3_column_int64(row, 8));
  for (const duration limit : {record.gone_after, record.lost_after}) {
    if (limit < duration::zero() || limit > timers_max) return false;
  }
  if (sqlite3_column_type(row, 10) != SQLITE_NULL) {
    record.job =
        started_job{text_of(row, 10), text_of(row, 11), text_of(row, 12), text_of(row, 13)};
  }
  return true;
}

host_moment read_life(sqlite3_stmt* row) {
  return {text_of(row, 14), sqlite3_column_int64(row, 15), sqlite3_column_int64(row, 16)};
}

bool put_job(sqlite3_stmt* to, const std::optional<started_job>& job) {
  const started_job said = job.value_or(started_job());
  const bool has_digest = job ? put(to, 11, said.digest) : sqlite3_bind_null(to, 11) == SQLITE_OK;
  return has_digest && put(to, 12, said.program) && put(to, 13, said.started) &&
         put(to, 14, said.node);
}

bool put_life(sqlite3_stmt* to, int first, const host_moment& now) {
  return put(to, first, now.boot) && put(to, first + 1, static_cast<std::uint64_t>(now.up)) &&
         put(to, first + 2, static_cast<std::uint64_t>(now.clock));
}

}  // namespace

void sqlite_file::closing::operator()(sqlite3* database) const {
  sqlite3_close(database);
}
void sqlite_file::closing::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

sqlite_file::~sqlite_file() = default;

std::unique_ptr<sqlite_file> sqlite_file::open(const std::string& folder, open_failure& failure,
                                               const char* vfs, const host_clock& clock) {
  if (const error_code error = make_private_folders(folder)) {
    failure.problem = "cannot create the state folder " + folder + ": " + error.message();
    return nullptr;
  }
  std::unique_ptr<sqlite_file> made(new sqlite_file(path_in(folder), clock));
  sqlite3* database = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(made->path_.c_str(), &database, flags, vfs);
  made->database_.reset(database);
  if (code != SQLITE_OK) {
    failure.problem = made->trouble("cannot open");
    return nullptr;
  }
  if (!made->prepare(failure)) return nullptr;
  return made;
}

bool sqlite_file::prepare(open_failure& failure) {
  sqlite3_extended_result_codes(database_.get(), 1);
  // The daemon before may still be closing it.
  sqlite3_busy_timeout(database_.get(), 300);
  // Exclusive before WAL: no memory is shared then, which network file systems cannot.
  const bool is_set_up = execute("PRAGMA locking_mode = EXCLUSIVE") &&
                         execute("PRAGMA journal_mode = WAL") &&
                         execute("PRAGMA synchronous = FULL");
  int version = 0;
  if (is_set_up) {
    const statement asked = compile("PRAGMA user_version");
    if (asked && sqlite3_step(asked.get()) == SQLITE_ROW) {
      version = sqlite3_column_int(asked.get(), 0);
    }
  }
  if (version > schema_version) {
    failure.problem = path_ + " is of a newer ddprun (format " + std::to_string(version) +
                      ", this one knows " + std::to_string(schema_version) +
                      "): start that version, or name another --state-dir";
    return false;
  }
  const std::string set_version = "PRAGMA user_version = " + std::to_string(schema_version);
  // The transaction takes the lock, which is kept from then on.
  const bool is_made = is_set_up && execute("BEGIN EXCLUSIVE") && execute(make_tables) &&
                       (version != 1 || execute(add_restarts_forgiven)) &&
                       (version == 0 || version >= 3 || execute(add_jobs)) &&
                       (version == schema_version || execute(set_version.c_str())) &&
                       execute(forget_finished) && execute("COMMIT");
  if (!is_made) {
    const bool is_taken = (sqlite3_errcode(database_.get()) & 0xFF) == SQLITE_BUSY;
    failure = is_taken ? taken_by_another(path_.substr(0, path_.rfind('/')))
                       : open_failure{trouble("cannot use")};
    execute("ROLLBACK");
    return false;
  }
  keep_ = compile(keep_words);
  forget_ = compile("DELETE FROM runs WHERE run_id = ?1");
  live_ = compile(show_life);
  if (keep_ && forget_ && live_) return true;
  failure.problem = trouble("cannot use");
  return false;
}

std::optional<std::vector<core::run_record>> sqlite_file::read(std::string& problem) {
  const statement rows = compile(
      "SELECT run_id, instance, rounds_reserved, restarts_used, exit_code, text, nodes, "
      "gone_after_us, "
      "lost_after_us, restarts_forgiven, job, program, started, node, boot, alive_up, alive_at "
      "FROM runs ORDER BY run_id");
  std::vector<core::run_record> found;
  std::vector<change> too_old;
  const host_moment now = clock_();
  int code = rows ? sqlite3_step(rows.get()) : SQLITE_ERROR;
  for (; code == SQLITE_ROW; code = sqlite3_step(rows.get())) {
    if (!read_row(rows.get(), found.emplace_back())) {
      problem = path_ + " holds a run that no ddprun wrote ('" + found.back().run_id +
                "'): move the file away, or name another --state-dir";
      return std::nullopt;
    }
    if (!is_too_old(found.back(), read_life(rows.get()), now)) continue;
    too_old.push_back({found.back().run_id, std::nullopt});
    found.pop_back();
  }
  if (code == SQLITE_DONE) {
    // Or the word that this daemon is alive would make them young again. A disk that is broken is
    // told of with the first change.
    std::string trouble_with_old;
    if (!too_old.empty()) write(too_old, trouble_with_old);
    return found;
  }
  problem = trouble("cannot read");
  return std::nullopt;
}

bool sqlite_file::write(const std::vector<change>& changes, std::string& problem) {
  bool is_good = execute("BEGIN IMMEDIATE");
  for (std::size_t index = 0; is_good && index < changes.size(); ++index)
    is_good = apply(changes[index]);
  if (is_good && execute("COMMIT")) return true;
  problem = trouble("cannot write");
  if (sqlite3_get_autocommit(database_.get()) == 0) execute("ROLLBACK");
  return false;
}

bool sqlite_file::is_done() {
  const statement asked = compile("SELECT 1 FROM runs WHERE exit_code IS NOT 0 OR nodes != 0");
  return asked && sqlite3_step(asked.get()) == SQLITE_DONE;
}

// The lock last: until then nobody else begins here.
void sqlite_file::remove(const std::string& folder) {
  const std::string file = path_in(folder);
  for (const std::string& path : {file, file + "-wal", file + "-shm", folder + "/lock"})
    ::unlink(path.c_str());
  ::rmdir(folder.c_str());
}

bool sqlite_file::show_alive() {
  const bool is_good =
      put_life(live_.get(), 1, clock_()) && sqlite3_step(live_.get()) == SQLITE_DONE;
  return sqlite3_reset(live_.get()) == SQLITE_OK && is_good;
}

bool sqlite_file::apply(const change& one) {
  const auto& [run_id, record] = one;
  sqlite3_stmt* const to = record ? keep_.get() : forget_.get();
  bool is_good = put(to, 1, run_id);
  if (record) {
    is_good = is_good && put(to, 2, to_hex(record->instance)) &&
              put(to, 3, record->rounds_reserved) &&
              put(to, 4, std::uint64_t{record->restarts_used}) &&
              (record->end ? sqlite3_bind_int(to, 5, record->end->exit_code)
                           : sqlite3_bind_null(to, 5)) == SQLITE_OK &&
              put(to, 6, record->end ? record->end->text : std::string()) &&
              put(to, 7, std::uint64_t{record->nodes}) &&
              put(to, 8, static_cast<std::uint64_t>(to_micros(record->gone_after))) &&
              put(to, 9, static_cast<std::uint64_t>(to_micros(record->lost_after))) &&
              put(to, 10, std::uint64_t{record->restarts_forgiven}) && put_job(to, record->job) &&
              put_life(to, 15, clock_());
  }
  is_good = is_good && sqlite3_step(to) == SQLITE_DONE;
  return sqlite3_reset(to) == SQLITE_OK && is_good;
}

bool sqlite_file::execute(const char* words) {
  return sqlite3_exec(database_.get(), words, nullptr, nullptr, nullptr) == SQLITE_OK;
}

sqlite_file::statement sqlite_file::compile(const char* words) {
  sqlite3_stmt* made = nullptr;
  sqlite3_prepare_v2(database_.get(), words, -1, &made, nullptr);
  return statement(made);
}

// "cannot write /var/lib/ddprun/journal.sqlite: database or disk is full: No space left on device"
std::string sqlite_file::trouble(const std::string& what) const {
  std::string text = what + " " + path_ + ": ";
  if (database_ == nullptr) return text + "no memory";
  text += sqlite3_errmsg(database_.get());
  const int number = sqlite3_system_errno(database_.get());
  if (number != 0) text += std::string(": ") + std::strerror(number);
  return text;
}

}  // namespace ddprun::journal
