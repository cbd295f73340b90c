#include "rendezvous/journal/sqlite_file.hpp"

#include "rendezvous/base/private_folders.hpp"
#include "rendezvous/core/messages/settings.hpp"
#include "rendezvous/journal/folder_lock.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sqlite3.h>
#include <unistd.h>

namespace ddprun::journal {
namespace {

// Increased with each change of the tables.
constexpr int schema_version = 4;

// A limit that the sum of a run's timers cannot exceed.
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
    "job TEXT, "  // digest; NULL: its daemon did not record it
    "program TEXT NOT NULL DEFAULT '', "
    "started TEXT NOT NULL DEFAULT '', "
    "node TEXT NOT NULL DEFAULT '', "
    // When the daemon that wrote the row was last alive: see record_age.hpp.
    "boot TEXT NOT NULL DEFAULT '', "
    "alive_up INTEGER NOT NULL DEFAULT 0, "
    "alive_at INTEGER NOT NULL DEFAULT 0, "
    "members TEXT NOT NULL DEFAULT '', "  // a line each
    "due_round INTEGER, "                 // NULL: no end is due
    "due_exit_code INTEGER NOT NULL DEFAULT 0, "
    "due_text TEXT NOT NULL DEFAULT ''"
    ") STRICT, WITHOUT ROWID; "
    // How the run's earlier instances ended, the newest first.
    "CREATE TABLE IF NOT EXISTS past_ends ("
    "run_id TEXT NOT NULL, "
    "number INTEGER NOT NULL, "
    "instance TEXT NOT NULL, "
    "exit_code INTEGER NOT NULL, "
    "text TEXT NOT NULL, "
    "round INTEGER NOT NULL, "
    "restarts_used INTEGER NOT NULL, "
    "restarts_forgiven INTEGER NOT NULL, "
    "job TEXT, "
    "program TEXT NOT NULL, "
    "started TEXT NOT NULL, "
    "node TEXT NOT NULL, "
    "PRIMARY KEY (run_id, number)"
    ") STRICT, WITHOUT ROWID";

// Upgrades version 1, keeping its rows.
constexpr const char* add_restarts_forgiven =
    "ALTER TABLE runs ADD COLUMN restarts_forgiven INTEGER NOT NULL DEFAULT 0";

// Upgrades versions 1 and 2. They do not say when their daemon was last alive: for a run that is
// over, the time of its last change is taken; for one that is open, the present.
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

// Upgrades versions 1 to 3, which do not say which nodes were in a round.
constexpr const char* add_members =
    "ALTER TABLE runs ADD COLUMN members TEXT NOT NULL DEFAULT ''; "
    "ALTER TABLE runs ADD COLUMN due_round INTEGER; "
    "ALTER TABLE runs ADD COLUMN due_exit_code INTEGER NOT NULL DEFAULT 0; "
    "ALTER TABLE runs ADD COLUMN due_text TEXT NOT NULL DEFAULT ''";

// Daemons that live for less than an hour would never delete these rows otherwise.
constexpr const char* forget_finished =
    "DELETE FROM runs WHERE exit_code IS NOT NULL AND nodes = 0 AND "
    "changed_at < datetime('now', '-1 hour'); "
    "DELETE FROM past_ends WHERE run_id NOT IN (SELECT run_id FROM runs)";

constexpr const char* insert_run =
    "INSERT OR REPLACE INTO runs "
    "(run_id, instance, rounds_reserved, restarts_used, exit_code, text, nodes, gone_after_us, "
    "lost_after_us, restarts_forgiven, job, program, started, node, boot, alive_up, alive_at, "
    "members, due_round, due_exit_code, due_text) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, "
    "?20, ?21)";

constexpr const char* insert_past_end =
    "INSERT INTO past_ends (run_id, number, instance, exit_code, text, round, restarts_used, "
    "restarts_forgiven, job, program, started, node) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

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

bool read_instance(sqlite3_stmt* row, int column, instance_id& instance) {
  const std::string text = text_of(row, column);
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, instance, 16);
  return error == std::errc() && end == last && instance != 0;
}

// Forgiven restarts are a part of the used ones.
bool read_restarts(sqlite3_stmt* row, int used, int forgiven, auto& to) {
  const sqlite3_int64 restarts = sqlite3_column_int64(row, used);
  const sqlite3_int64 of_them = sqlite3_column_int64(row, forgiven);
  if (restarts < 0 || restarts > std::int64_t{UINT32_MAX}) return false;
  if (of_them < 0 || of_them > restarts) return false;
  to.restarts_used = static_cast<std::uint32_t>(restarts);
  to.restarts_forgiven = static_cast<std::uint32_t>(of_them);
  return true;
}

std::optional<started_job> read_job(sqlite3_stmt* row, int first) {
  if (sqlite3_column_type(row, first) == SQLITE_NULL) return std::nullopt;
  return started_job{text_of(row, first), text_of(row, first + 1), text_of(row, first + 2),
                     text_of(row, first + 3)};
}

shared_list<std::string> read_members(const std::string& lines) {
  std::vector<std::string> names;
  for (std::size_t at = 0; !lines.empty() && at <= lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    names.push_back(lines.substr(at, end - at));
    at = end + 1;
  }
  return shared_list<std::string>(std::move(names));
}

std::string lines_of(const shared_list<std::string>& members) {
  std::string lines;
  for (const std::string& name : members)
    lines += name + "\n";
  if (!lines.empty()) lines.pop_back();
  return lines;
}

// Returns false if the row holds values that this program never writes.
bool read_row(sqlite3_stmt* row, core::run_record& record) {
  record.run_id = text_of(row, 0);
  const sqlite3_int64 rounds = sqlite3_column_int64(row, 2);
  if (record.run_id.empty() || !read_instance(row, 1, record.instance) || rounds < 0) return false;
  if (!read_restarts(row, 3, 9, record)) return false;
  record.rounds_reserved = static_cast<round_number>(rounds);
  if (sqlite3_column_type(row, 4) != SQLITE_NULL) {
    record.end = core::run_end{sqlite3_column_int(row, 4), text_of(row, 5)};
  }
  const sqlite3_int64 nodes = sqlite3_column_int64(row, 6);
  if (nodes < 0 || nodes > std::int64_t{UINT32_MAX}) return false;
  record.nodes = static_cast<std::uint32_t>(nodes);
  record.gone_after = std::chrono::microseconds(sqlite3_column_int64(row, 7));
  record.lost_after = std::chrono::microseconds(sqlite3_column_int64(row, 8));
  // `gone_after` says when no worker of these nodes can be alive, so a damaged value is refused.
  for (const duration limit : {record.gone_after, record.lost_after}) {
    if (limit < duration::zero() || limit > timers_max) return false;
  }
  record.job = read_job(row, 10);
  record.members = read_members(text_of(row, 17));
  if (record.members.size() > record.nodes) return false;
  if (sqlite3_column_type(row, 18) == SQLITE_NULL) return true;
  const sqlite3_int64 due_round = sqlite3_column_int64(row, 18);
  if (due_round < 0) return false;
  record.due = core::due_end{static_cast<round_number>(due_round),
                             {sqlite3_column_int(row, 19), text_of(row, 20)}};
  return true;
}

bool read_past_row(sqlite3_stmt* row, core::past_end& one) {
  const sqlite3_int64 round = sqlite3_column_int64(row, 3);
  if (round < 0 || !read_instance(row, 0, one.instance)) return false;
  one.how = {sqlite3_column_int(row, 1), text_of(row, 2)};
  one.round = static_cast<round_number>(round);
  one.job = read_job(row, 6);
  return read_restarts(row, 4, 5, one);
}

host_moment read_life(sqlite3_stmt* row) {
  return {text_of(row, 14), sqlite3_column_int64(row, 15), sqlite3_column_int64(row, 16)};
}

bool put_job(sqlite3_stmt* to, int first, const std::optional<started_job>& job) {
  const started_job said = job.value_or(started_job());
  const bool has_digest =
      job ? put(to, first, said.digest) : sqlite3_bind_null(to, first) == SQLITE_OK;
  return has_digest && put(to, first + 1, said.program) && put(to, first + 2, said.started) &&
         put(to, first + 3, said.node);
}

bool put_due(sqlite3_stmt* to, int first, const std::optional<core::due_end>& due) {
  const core::due_end said = due.value_or(core::due_end());
  const bool has_round =
      due ? put(to, first, said.round) : sqlite3_bind_null(to, first) == SQLITE_OK;
  return has_round && sqlite3_bind_int(to, first + 1, said.how.exit_code) == SQLITE_OK &&
         put(to, first + 2, said.how.text);
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
  // No mutex, because only one thread uses the file at a time.
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
  // The previous daemon may still be closing the file.
  sqlite3_busy_timeout(database_.get(), 300);
  // Set exclusive locking before WAL: then no memory is shared, which does not work on network file
  // systems.
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
  // An older daemon must not write a format that it does not know.
  if (version > schema_version) {
    failure.problem = path_ + " is of a newer ddprun (format " + std::to_string(version) +
                      ", this one knows " + std::to_string(schema_version) +
                      "): start that version, or name another --state-dir";
    return false;
  }
  const std::string set_version = "PRAGMA user_version = " + std::to_string(schema_version);
  // The transaction takes the lock, which is held from then on. Version 0 is a new file, in which
  // make_tables makes the tables in their newest form.
  const bool is_made = is_set_up && execute("BEGIN EXCLUSIVE") && execute(make_tables) &&
                       (version != 1 || execute(add_restarts_forgiven)) &&
                       (version == 0 || version >= 3 || execute(add_jobs)) &&
                       (version == 0 || version >= 4 || execute(add_members)) &&
                       (version == schema_version || execute(set_version.c_str())) &&
                       execute(forget_finished) && execute("COMMIT");
  if (!is_made) {
    const bool is_taken = (sqlite3_errcode(database_.get()) & 0xFF) == SQLITE_BUSY;
    failure = is_taken ? taken_by_another(path_.substr(0, path_.rfind('/')))
                       : open_failure{trouble("cannot use")};
    execute("ROLLBACK");
    return false;
  }
  insert_ = compile(insert_run);
  forget_ = compile("DELETE FROM runs WHERE run_id = ?1");
  live_ = compile(show_life);
  insert_past_ = compile(insert_past_end);
  forget_past_ = compile("DELETE FROM past_ends WHERE run_id = ?1");
  if (insert_ && forget_ && live_ && insert_past_ && forget_past_) return true;
  failure.problem = trouble("cannot use");
  return false;
}

std::optional<std::vector<core::run_record>> sqlite_file::read(std::string& problem) {
  const statement rows = compile(
      "SELECT run_id, instance, rounds_reserved, restarts_used, exit_code, text, nodes, "
      "gone_after_us, "
      "lost_after_us, restarts_forgiven, job, program, started, node, boot, alive_up, alive_at, "
      "members, due_round, due_exit_code, due_text "
      "FROM runs ORDER BY run_id");
  std::vector<core::run_record> found;
  std::vector<change> too_old;
  const host_moment now = clock_();
  int code = rows ? sqlite3_step(rows.get()) : SQLITE_ERROR;
  for (; code == SQLITE_ROW; code = sqlite3_step(rows.get())) {
    if (!read_row(rows.get(), found.emplace_back()) || !read_past(found.back())) {
      problem = path_ + " holds a run that no ddprun wrote ('" + found.back().run_id +
                "'): move the file away, or name another --state-dir";
      return std::nullopt;
    }
    if (!is_too_old(found.back(), read_life(rows.get()), now)) continue;
    too_old.push_back({found.back().run_id, std::nullopt});
    found.pop_back();
  }
  if (code == SQLITE_DONE) {
    // Delete old records now: otherwise show_alive() would make them young again. A failure is not
    // reported here, because the next write reports it.
    std::string trouble_with_old;
    if (!too_old.empty()) write(too_old, trouble_with_old);
    return found;
  }
  problem = trouble("cannot read");
  return std::nullopt;
}

// Returns false if a row holds values that this program never writes.
bool sqlite_file::read_past(core::run_record& record) {
  const statement rows = compile(
      "SELECT instance, exit_code, text, round, restarts_used, restarts_forgiven, job, program, "
      "started, node FROM past_ends WHERE run_id = ?1 ORDER BY number");
  std::vector<core::past_end> found;
  bool is_good = rows && put(rows.get(), 1, record.run_id);
  while (is_good && sqlite3_step(rows.get()) == SQLITE_ROW)
    is_good = read_past_row(rows.get(), found.emplace_back());
  record.past = shared_list<core::past_end>(std::move(found));
  return is_good && record.past.size() <= core::past_ends_max;
}

bool sqlite_file::write(const std::vector<change>& changes, std::string& problem) {
  bool is_good = execute("BEGIN IMMEDIATE");
  for (std::size_t index = 0; is_good && index < changes.size(); ++index)
    is_good = apply(changes[index]);
  if (is_good && execute("COMMIT")) return true;
  problem = trouble("cannot write");
  // SQLite has rolled back already after some errors.
  if (sqlite3_get_autocommit(database_.get()) == 0) execute("ROLLBACK");
  return false;
}

bool sqlite_file::is_done() {
  const statement asked = compile("SELECT 1 FROM runs WHERE exit_code IS NOT 0 OR nodes != 0");
  return asked && sqlite3_step(asked.get()) == SQLITE_DONE;
}

// The lock goes last: until then no other daemon starts here.
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
  sqlite3_stmt* const to = record ? insert_.get() : forget_.get();
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
              put(to, 10, std::uint64_t{record->restarts_forgiven}) &&
              put_job(to, 11, record->job) && put_life(to, 15, clock_()) &&
              put(to, 18, lines_of(record->members)) && put_due(to, 19, record->due);
  }
  is_good = is_good && sqlite3_step(to) == SQLITE_DONE;
  // The statement is reused, so it is reset even after a failure.
  is_good = sqlite3_reset(to) == SQLITE_OK && is_good;
  return is_good && write_past(run_id, record ? record->past : shared_list<core::past_end>());
}

bool sqlite_file::write_past(const std::string& run_id, const shared_list<core::past_end>& past) {
  // The list is replaced as a whole.
  sqlite3_stmt* const old = forget_past_.get();
  bool is_good = put(old, 1, run_id) && sqlite3_step(old) == SQLITE_DONE;
  is_good = sqlite3_reset(old) == SQLITE_OK && is_good;
  sqlite3_stmt* const to = insert_past_.get();
  std::uint64_t number = 0;
  for (const core::past_end& one : past) {
    is_good = is_good && put(to, 1, run_id) && put(to, 2, number++) &&
              put(to, 3, to_hex(one.instance)) &&
              sqlite3_bind_int(to, 4, one.how.exit_code) == SQLITE_OK && put(to, 5, one.how.text) &&
              put(to, 6, one.round) && put(to, 7, std::uint64_t{one.restarts_used}) &&
              put(to, 8, std::uint64_t{one.restarts_forgiven}) && put_job(to, 9, one.job) &&
              sqlite3_step(to) == SQLITE_DONE;
    is_good = sqlite3_reset(to) == SQLITE_OK && is_good;
  }
  return is_good;
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
  const int code = sqlite3_errcode(database_.get()) & 0xFF;
  // It would be the same each time: only a person may take the file for worthless.
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) return text + ": move it away";
  const int number = sqlite3_system_errno(database_.get());
  if (number != 0) text += std::string(": ") + std::strerror(number);
  return text;
}

}  // namespace ddprun::journal
