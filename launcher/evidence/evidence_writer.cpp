#include "launcher/evidence/evidence_writer.hpp"

#include "launcher/evidence/evidence_gathering.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

// A disk that hangs delays the end of the agent by no more than this.
constexpr auto keep_limit_at_end = std::chrono::seconds(2);

}  // namespace

evidence_writer::evidence_writer(boost::asio::any_io_executor executor, outside with,
                                 write_call write)
    : outside_(std::move(with)), write_(std::move(write)), writing_(executor), late_(executor) {}

void evidence_writer::keep(saved_evidence what, node_evidence seen, note_level level,
                           const std::string& words) {
  newest_ = std::move(what);
  if (newest_.folder.empty()) return;
  job wanted{newest_.round, newest_.folder, std::move(seen), level, words};
  if (!writing_.under_way()) return start(std::move(wanted));
  if (!next_) return void(next_ = std::move(wanted));
  newest_.folder.clear();
  if (std::exchange(is_told_, true)) return;
  outside_.say(note_level::warning, "the evidence of round " + std::to_string(wanted.round) +
                                        " is not kept: that of round " +
                                        std::to_string(now_.round) + " is still being written to " +
                                        now_.folder + "; is its disk stuck?");
}

void evidence_writer::start(job what) {
  node_evidence seen = std::move(what.seen);
  now_ = std::move(what);
  writing_.start(
      [folder = now_.folder, write = write_, seen = std::move(seen),
       files = outside_.memory_files()]() mutable {
        if (seen.memory.empty()) seen.memory = memory_counts(files);
        // The log files' thread creates the same parent folder, and may be later than we are.
        std::error_code ignored;
        std::filesystem::create_directory(std::filesystem::path(folder).parent_path(), ignored);
        return write(folder, seen);
      },
      [this](std::optional<std::string> problem) {
        finish(problem ? *problem : "cannot save the evidence: the system has no thread left");
      });
}

void evidence_writer::finish(const std::string& problem) {
  is_told_ = false;
  if (problem.empty()) {
    outside_.say(now_.level, now_.words + ": " + now_.folder);
  } else {
    if (newest_.round == now_.round) newest_.folder.clear();
    outside_.say(note_level::warning, problem);
  }
  if (auto next = std::exchange(next_, std::nullopt)) return start(*std::move(next));
  late_.cancel();
  if (const auto then = std::exchange(then_, nullptr)) then();
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
