// The evidence_writer writes the evidence of a round into its folder, on a thread of its own, and
// knows where that of the newest round is.
//
// Thread rule: the main thread; what it says and `then` come from the loop. Ownership: destroy it
// before its io_context; a disk that hangs keeps a thread, which owns what it touches. Errors: a
// line that says what could not be written, and from then on no folder is named.
#pragma once

#include "launcher/evidence/rank_evidence.hpp"
#include "launcher/process/background_task.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ddprun::launcher::evidence {

struct saved_evidence {
  round_number round = 0;
  std::string sentence;
  std::string folder;  // empty: it is not kept
};

class evidence_writer {
 public:
  struct outside {
    std::function<void(note_level level, const std::string& text)> say;
    std::function<std::vector<std::string>()> memory_files;  // of cgroups
  };

  evidence_writer(boost::asio::any_io_executor executor, outside with);

  // From now on the newest is `what`. If it has a folder, `seen` is written there; once that is
  // done, `words` and the folder are said at `level`.
  void keep(saved_evidence what, node_evidence seen, note_level level, const std::string& words);
  // Of the newest round that has some.
  const saved_evidence& newest() const { return newest_; }
  // Calls `then` when nothing is being written: at once, or after two seconds at most.
  void when_written(std::function<void()> then);

 private:
  outside outside_;
  saved_evidence newest_;
  background_task<std::string> writing_;
  boost::asio::steady_timer late_;
  std::function<void()> then_;  // empty: nobody waits
};

}  // namespace ddprun::launcher::evidence
