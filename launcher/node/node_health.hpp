// Decides whether this node is fit for another round, by --health-check's command and by what the
// kernel and NVIDIA's driver report: after each failed round, and while the node sits out.
//
// What the kernel says holds up no restart: it is looked at beside it, a moment later, and heard
// when it is known. Only where a GPU may have failed it is looked at at once, and waited for, up to
// a limit: the next round is not to go back to that GPU, nor to one whose memory is still held by
// processes that were killed. The command is waited for, up to its own.
// A node that becomes unhealthy again and again is unhealthy for a while longer than its checks say
// (health_cool_down).
//
// What a look finds may pass: a full disk is cleared, and the driver takes seconds to let go of a
// killed worker's GPU memory. So an unhealthy node is looked at again from time to time, also while
// workers run on it; what the command has found stays until it runs again, after the next failure.
// Workers that SIGKILL was sent to are looked at soon again, and count only if they stay.
//
// Thread rule: the main thread; `heard` and `say` are called from the executor, never from inside a
// call.
#pragma once

#include "launcher/cli/health_options.hpp"
#include "launcher/node/health_cool_down.hpp"
#include "launcher/node/node_look.hpp"
#include "launcher/process/background_task.hpp"
#include "launcher/process/hook_runner.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

class node_health {
 public:
  struct times {
    duration look_limit = std::chrono::seconds(5);  // so long an answer waits for a look
    // Longer than kill_wait: until then the agent itself waits for them.
    duration dying_limit = std::chrono::seconds(30);
    duration until_dying_again = std::chrono::seconds(5);  // from one look at these to the next
    duration until_dying_awaited = std::chrono::milliseconds(200);  // while the answer waits
  };
  // `unhealthy`: what was found; empty: the node is healthy. Called once with the round given to
  // `check`, and later with 0 when it has changed.
  using heard_handler = std::function<void(round_number round, const std::string& unhealthy)>;
  // Tells the user that the node is unhealthy, or healthy again; called before `heard`.
  using say_handler = std::function<void(note_level level, const std::string& text)>;
  // Looks at the node without asking anybody; blocks.
  using own_look = std::function<node_look()>;

  // `command`: none: nobody has asked for it. `look` may be empty.
  node_health(boost::asio::any_io_executor executor, health_options options,
              std::unique_ptr<hook_runner> command, own_look look, heard_handler heard,
              say_handler say, times limits);
  node_health(const node_health&) = delete;
  node_health& operator=(const node_health&) = delete;

  // A round has failed here or elsewhere. `waits_for_look`: a GPU of this node may be the reason.
  void check(round_number round, bool waits_for_look = false);
  // Workers were killed: what has not ended by then may keep its GPU.
  void look_after(duration pause);
  // Workers of another round are started here: the command may not disturb them. Looks do: the one
  // that follows the last round, and those after it for as long as they find something.
  void rest();

 private:
  void run_command(round_number round);
  void look_now();
  void look();
  void hear_look(node_look found);
  void wait_for_dying(const std::vector<gpu_holder>& dying);
  void look_at_dying_again(bool any_ends);
  std::vector<gpu_holder> find_stuck(const std::vector<gpu_holder>& dying);
  void answer();
  void tell(round_number round);
  bool may_look_beside_workers() const;
  void check_again_later();

  boost::asio::any_io_executor executor_;
  health_options options_;
  std::unique_ptr<hook_runner> command_;
  own_look look_;
  heard_handler heard_;
  say_handler say_;
  background_task<node_look> looking_;
  boost::asio::steady_timer soon_;
  boost::asio::steady_timer again_;
  boost::asio::steady_timer late_;  // a look that is waited for
  boost::asio::steady_timer dying_again_;
  times limits_;
  bool waits_for_look_ = false;
  bool has_said_dying_ = false;  // that the answer waits for these
  bool is_stale_ = false;        // the look that is under way began before the round failed
  bool is_running_ = false;      // the command
  bool is_resting_ = false;      // workers run here
  round_number awaited_ = 0;     // in which round its word is waited for; 0: in none
  std::string said_by_command_;  // what is wrong; empty: nothing
  std::string seen_;             // the same, by the own look
  std::string warned_;           // the newest warning of that
  std::map<pid_t, time_point> dying_since_;  // when the looks first found it, until one does not
  health_cool_down cool_down_;
  std::string told_;
  lifetime alive_;
};

// "GPU 3 fell off the bus (--health-check: exit code 1)"; empty: the command succeeded.
std::string health_problem(const hook_end& end);

}  // namespace ddprun::launcher
