#include "launcher/evidence/evidence_writer.hpp"

#include "launcher/evidence/evidence_folder.hpp"
#include "launcher/evidence/gather.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

// A disk that hangs holds up nobody's end for longer.
constexpr auto keep_limit_at_end = std::chrono::seconds(2);

}  // namespace

evidence_writer::evidence_writer(boost::asio::any_io_executor executor, outside with)
    : outside_(std::move(with)), writing_(executor), late_(executor) {}

void evidence_writer::keep(saved_evidence what, node_evidence seen, note_level level,
                           const std::string& words) {
  newest_ = std::move(what);
  if (newest_.folder.empty()) return;
  writing_.start(
      [folder = newest_.folder, seen = std::move(seen), files = outside_.memory_files()]() mutable {
        if (seen.memory.empty()) seen.memory = memory_counts(files);
        // Another thread is to make it, for the log files, and may be late.
        std::error_code ignored;
        std::filesystem::create_directory(std::filesystem::path(folder).parent_path(), ignored);
        return write_evidence(folder, seen);
      },
      [this, level, words](std::optional<std::string> problem) {
        if (!problem) problem = "cannot save the evidence: the system has no thread left";
        if (problem->empty()) {
          outside_.say(level, words + ": " + newest_.folder);
        } else {
          newest_.folder.clear();
          outside_.say(note_level::warning, *problem);
        }
        late_.cancel();
        if (const auto then = std::exchange(then_, nullptr)) then();
      });
}

void evidence_writer::when_written(std::function<void()> then) {
  if (!writing_.under_way()) return then();
  then_ = std::move(then);
  late_.expires_after(keep_limit_at_end);
  late_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    if (const auto late = std::exchange(then_, nullptr)) late();
  });
}

}  // namespace ddprun::launcher::evidence
