#include "launcher/evidence/evidence_gathering.hpp"

#include "launcher/base/begun_task.hpp"
#include "launcher/evidence/gpu_wait.hpp"
#include "launcher/evidence/proc_files.hpp"
#include "launcher/evidence/py_spy.hpp"
#include "launcher/evidence/ras_status.hpp"
#include "launcher/evidence/server_folder.hpp"
#include "launcher/evidence/stack_request.hpp"
#include "launcher/evidence/worker_server.hpp"
#include "launcher/process/find_program.hpp"
#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::chrono::milliseconds pause_between_looks{1};
constexpr std::size_t spied_max = 8;  // at the same time
constexpr std::size_t kernel_stack_bytes_max = 2048;
constexpr std::size_t nccl_bytes_max = 64 * 1024;
constexpr std::chrono::milliseconds source_limit{100};
// For a thread that may have to wait. The least time fits into what rank_watch adds to the limit.
constexpr duration awaited_file_limit = std::chrono::seconds(1);
constexpr duration awaited_file_limit_least = std::chrono::milliseconds(100);

// Call it before the signal, which may wake the process.
void look_at(rank_evidence& one) {
  one.state = processor_usage_of(one.pid).state;
  kernel_wait now = kernel_wait_of(one.pid);
  one.wait_channel = now.channel;
  if (one.state == 'D') one.waits = std::move(now);
}

// After it has been asked, which has given it some time.
void look_again(question& asked, time_point until) {
  bool is_one_silent = false;  // even this may hang as the rank does
  for (rank_question& one : asked.ranks) {
    rank_evidence& known = one.known;
    if (!known.waits) continue;
    const bool is_there = processor_usage_of(known.pid).state == 'D';
    if (!is_there || kernel_wait_of(known.pid) != *known.waits) known.waits.reset();
    if (!known.waits || is_one_silent) continue;
    // If this is late, what the ranks have said is void.
    const duration limit =
        std::clamp(until - asked.now(), awaited_file_limit_least, awaited_file_limit);
    const auto file = within(limit, [pid = known.pid] { return file_waited_for(pid); });
    is_one_silent = !file;
    known.awaited_file = file.value_or("");
  }
}

struct open_request {
  rank_evidence* of = nullptr;
  stack_request request;
};

void ask_for_stacks(question& asked, time_point until) {
  std::vector<open_request> open;
  for (rank_question& one : asked.ranks) {
    open_request next;
    next.of = &one.known;
    one.known.is_asked = one.process && !waits_for_signal(one.known) &&
                         next.request.send(one.known.pid, one.process.get());
    if (one.known.is_asked) open.push_back(std::move(next));
  }
  while (!open.empty() && asked.now() < until) {
    std::erase_if(open, [](open_request& one) {
      auto text = one.request.answer();
      if (!text) return false;
      // The worker owns the file and may have written anything into it.
      one.of->stacks = in_lines(to_valid_utf8(*text));
      one.of->stack = main_stack(one.of->stacks);
      return true;
    });
    if (!open.empty()) asked.sleep(pause_between_looks);
  }
}

// Asks all ranks that have not answered at once, from a few threads of our own.
void spy_on_silent(question& asked, time_point until) {
  std::vector<rank_evidence*> silent;
  for (rank_question& one : asked.ranks) {
    const char state = one.known.state;
    // py-spy cannot read a process that is gone, and hangs on one in uninterruptible sleep.
    const bool is_there = state != '?' && state != 'Z' && state != 'D';
    if (is_there && one.known.stacks.empty() && silent.size() < spied_max)
      silent.push_back(&one.known);
  }
  std::vector<std::thread> threads;
  for (rank_evidence* const one : silent) {
    try {
      threads.emplace_back([one, until, &asked] {
        one->stacks = ask_py_spy(one->pid, asked.environment, until - asked.now());
        one->stack = main_stack_of_py_spy(one->stacks);
      });
    } catch (const std::system_error&) {
      break;  // the system has no thread left
    }
  }
  for (std::thread& one : threads)
    one.join();
}

// Asks NCCL once for the node, in parallel with the ranks; it returns within the limit.
class ras_question {
 public:
  ras_question(const environment_map& environment, duration limit) {
    const std::string* const given = find_variable(environment, std::string(ras_variable));
    const ras_place where = given == nullptr ? ras_place() : ras_place_of(*given);
    if (where.port == 0) return;
    try {
      asking_ = std::thread([this, where, limit] { answer_ = ask_ras(where, limit); });
    } catch (const std::system_error&) {  // the system has no thread left
    }
  }
  ~ras_question() {
    if (asking_.joinable()) asking_.join();
  }
  ras_question(const ras_question&) = delete;
  ras_question& operator=(const ras_question&) = delete;

  std::string answer() {
    if (asking_.joinable()) asking_.join();
    return std::move(answer_);
  }

 private:
  std::string answer_;
  std::thread asking_;
};

// All ranks at once, beside the stacks; it is back within the limit, of which a quarter is for an
// answer that is being read when the rest is over.
class server_question {
 public:
  server_question(const question& asked) {
    if (asked.server_folder.empty()) return;
    std::map<pid_t, std::string> sockets;
    for (const rank_question& one : asked.ranks) {
      // The threads of a stopped one do not answer either.
      const char state = one.known.state;
      if (state == 'S' || state == 'R' || state == 'D')
        sockets[one.known.pid] = server_socket(asked.server_folder, one.known.pid);
    }
    try {
      // Without this variable NCCL tells ddprun nothing (it is set where ranks may use NCCL, a port
      // was free and hangs are looked for), and its records are not asked for either.
      const bool asks_nccl = find_variable(asked.environment, std::string(ras_variable)) != nullptr;
      asking_ = std::thread([this, sockets, asks_nccl, limit = asked.limit * 3 / 4] {
        answers_ = ask_worker_servers(sockets, asks_nccl, limit);
      });
    } catch (const std::system_error&) {  // the system gives no thread
    }
  }
  ~server_question() {
    if (asking_.joinable()) asking_.join();
  }
  server_question(const server_question&) = delete;
  server_question& operator=(const server_question&) = delete;

  void take_records(question& asked) {
    if (asking_.joinable()) asking_.join();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    for (rank_question& one : asked.ranks) {
      const auto answer = answers_.find(one.known.pid);
      if (answer == answers_.end()) continue;
      one.known.record = std::move(answer->second);
      one.known.looked_at_ns = std::chrono::nanoseconds(now).count();
    }
  }

 private:
  std::map<pid_t, flight_record> answers_;
  std::thread asking_;
};

void look_for_gpu_waits(question& asked) {
  bool is_source_silent = false;  // its file system hangs, maybe the one that blocks the ranks
  for (rank_question& one : asked.ranks) {
    rank_evidence& known = one.known;
    if (known.stack.empty()) continue;
    std::string line;
    // A rank that waits for its GPU spins; a sleeping one may be doing something else.
    if (known.state == 'R' && !is_source_silent) {
      begun_task<std::string> reading(source_limit, [pid = known.pid, frame = known.stack.front()] {
        return line_in_source(pid, frame);
      });
      const auto read = reading.take(true);
      is_source_silent = !read;
      line = read.value_or("");
    }
    known.gpu_wait = gpu_wait_of(known.stack, line);
  }
}

}  // namespace

unique_fd open_process(pid_t pid) {
  return unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::string memory_counts(const std::vector<std::string>& files) {
  std::string counts;
  for (const std::string& file : files) {
    const std::string text = text_of_file(file);
    if (!text.empty()) counts += file + "\n" + text;
  }
  return counts;
}

node_evidence gather(const std::shared_ptr<question>& asked) {
  const time_point now = asked->now();
  const time_point until = now + asked->limit;
  for (rank_question& one : asked->ranks)
    look_at(one.known);
  // An NCCL that does not answer must not cost what the ranks have said: a late answer is void.
  ras_question nccl(asked->environment, asked->limit * 3 / 4);
  server_question servers(*asked);
  if (find_program("py-spy", to_entries(asked->environment))) {
    ask_for_stacks(*asked, now + asked->limit / 2);
    spy_on_silent(*asked, until);
  } else {
    ask_for_stacks(*asked, until);
  }
  look_again(*asked, until);
  const bool has_nccl = find_variable(asked->environment, std::string(ras_variable)) != nullptr;
  if (has_nccl) look_for_gpu_waits(*asked);
  servers.take_records(*asked);
  // This comes last because reading it may block while the process is stuck in execve.
  for (rank_question& one : asked->ranks)
    one.known.kernel_stack =
        text_of_file(proc_path(one.known.pid, "stack")).substr(0, kernel_stack_bytes_max);
  node_evidence found;
  for (rank_question& one : asked->ranks)
    found.ranks.push_back(std::move(one.known));
  std::sort(
      found.ranks.begin(), found.ranks.end(),
      [](const rank_evidence& one, const rank_evidence& other) { return one.rank < other.rank; });
  found.memory = memory_counts(asked->memory_files);
  const std::string status = nccl.answer();
  found.nccl_counts = ras_counts(status);
  found.nccl_lag = sole_lag(status);
  found.has_nccl_lags = has_lags(status);
  found.nccl_behind = ras_sentence(status);
  found.nccl = first_of(status, nccl_bytes_max);
  return found;
}

}  // namespace ddprun::launcher::evidence
