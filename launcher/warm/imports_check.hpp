// An imports_check says whether what spares have imported is still what a cold start would import.
// It looks at the files beside the stop of a round, so that the next one need not wait for it; a
// start that comes later than that, or sooner than the answer, waits for a look of its own.
//
// Thread rule: the main thread; the files are looked at on others. `answered` comes from the
// executor, never from inside a call, and may call anything here; not after destruction. Errors: a
// look that could not be made has an answer that says so: nobody may take such imports for good.
#pragma once

#include "launcher/process/background_task.hpp"
#include "launcher/warm/imported_files.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/base/time.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::launcher::warm {

class imports_check {
 public:
  struct options {
    // From the answer to the start of a worker: what was edited later was not seen. It does not
    // count from the question, or a disk on which a look takes longer would never be looked at in
    // time, and each start would wait for a second look.
    std::chrono::milliseconds valid{500};
    // Of a disk that does not answer.
    std::chrono::milliseconds limit{10'000};
    // On another thread; tests have their own.
    std::function<std::string(const imported_files&)> look = &imported_files::changed;
    std::function<time_point()> now = [] { return std::chrono::steady_clock::now(); };
  };
  // `why` empty: they are what they were. Else why a worker is to be started cold. `is_of_known`:
  // the files that were looked at are still those of all spares.
  using answer_handler = std::function<void(const std::string& why, bool is_of_known)>;

  imports_check(boost::asio::any_io_executor executor, options values, answer_handler answered);

  // Those of all spares from now on; what is answered of others says nothing of these.
  void know(imported_files files);
  void forget();

  // Unless a look at them is under way, or has just been answered. None are known: no effect.
  void begin();
  bool under_way() const { return task_.under_way(); }

 private:
  void answer(const std::string& why);

  options options_;
  answer_handler answered_;
  std::shared_ptr<const imported_files> files_;
  std::shared_ptr<const imported_files> looked_at_;  // by the last look
  std::uint64_t looks_ = 0;
  time_point answered_at_{};
  background_task<std::string> task_;
  boost::asio::steady_timer limit_timer_;
  lifetime alive_;
};

}  // namespace ddprun::launcher::warm
