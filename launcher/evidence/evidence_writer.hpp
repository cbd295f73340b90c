// The evidence_writer writes the evidence of a round into its folder, on a thread of its own, and
// knows the folder of the newest round. One job waits while another is written; more, as when a
// disk hangs, are dropped.
//
// Thread rule: the main thread; `say` and `then` are called from the loop. Ownership: destroy it
// before its io_context; a disk that hangs keeps a thread, which owns all it uses. Errors: a line
// says what could not be written, and from then on no folder is named.
#pragma once

#include "launcher/evidence/evidence_folder.hpp"
#include "launcher/evidence/rank_evidence.hpp"
#include "launcher/process/background_task.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::evidence {

struct saved_evidence {
  round_number round = 0;
  std::string sentence;
  std::string folder;  // empty: it is not saved
};

class evidence_writer {
 public:
  struct outside {
    std::function<void(note_level level, const std::string& text)> say;
    std::function<std::vector<std::string>()> memory_files;  // of cgroups
  };

  // Runs on a thread of its own; see write_evidence().
  using write_call =
      std::function<std::string(const std::string& folder, const node_evidence& seen)>;

  // Tests pass their own `write`.
  evidence_writer(boost::asio::any_io_executor executor, outside with,
                  write_call write = write_evidence);

  // Makes `what` the newest. If it has a folder, `seen` is written there, and then `words` and the
  // folder are printed at `level`. If two others are still to be written, it is dropped with a
  // warning, which is not repeated until one of them is done.
  void keep(saved_evidence what, node_evidence seen, note_level level, const std::string& words);
  // The evidence of the newest round that has any.
  const saved_evidence& newest() const { return newest_; }
  // Calls `then` when nothing is being written: at once, or after two seconds at most.
  void when_written(std::function<void()> then);

 private:
  struct job {
    round_number round = 0;
    std::string folder;
    node_evidence seen;
    note_level level = note_level::info;
    std::string words;
  };
  void start(job what);
  void finish(const std::string& problem);

  outside outside_;
  write_call write_;
  saved_evidence newest_;
  job now_;                  // being written
  std::optional<job> next_;  // when now_ is done
  bool is_told_ = false;     // the warning that a job was dropped was printed
  background_task<std::string> writing_;
  boost::asio::steady_timer late_;
  std::function<void()> then_;  // empty: no caller waits
};

}  // namespace ddprun::launcher::evidence
