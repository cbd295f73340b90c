#include "launcher/survivors/survivor_spawner.hpp"

#include "launcher/survivors/round_changes.hpp"
#include "launcher/warm/memory_file.hpp"
#include "rendezvous/net/packet.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace asio = boost::asio;

namespace ddprun::launcher::survivors {
namespace {

// How long a killed process that is stuck in the kernel can delay our exit.
constexpr std::chrono::seconds end_limit{1};
constexpr int callers_max = 64;  // not accepted yet

unique_fd copy_of(const unique_fd& descriptor) {
  return unique_fd(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0));
}

result<unique_fd> listen_at(const std::string& name) {
  unique_fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!socket) return system_error(errno);
  if (name.size() + 1 > sizeof(address.sun_path)) return system_error(ENAMETOOLONG);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), callers_max) != 0)
    return system_error(errno);
  return socket;
}

// The session of the connected process; -1: it is another user's, or gone.
pid_t session_of_caller(int socket) {
  ucred caller{};
  socklen_t size = sizeof(caller);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &caller, &size) != 0) return -1;
  if (caller.uid != ::geteuid() || caller.pid <= 0) return -1;
  return ::getsid(caller.pid);
}

}  // namespace

struct survivor_spawner::member : std::enable_shared_from_this<survivor_spawner::member> {
  member(const asio::any_io_executor& executor, spawn_request of, spawn_handlers called)
      : request(std::move(of)), handlers(std::move(called)), link(executor), timer(executor) {}

  pid_t pid = -1;
  stage at = stage::working;
  spawn_request request;
  spawn_handlers handlers;
  unique_fd output, errors;             // its pipes, for the round after this one
  asio::posix::stream_descriptor link;  // closed: it has not connected
  asio::steady_timer timer;             // for `leaving` and `beginning`
  std::string hangs;                    // why it was killed; empty: it was not

  bool can_stay() const { return link.is_open() && output && errors; }
};

survivor_spawner::survivor_spawner(asio::any_io_executor executor, spawner& inner, guardian& guard,
                                   survivor_options options, events told)
    : executor_(std::move(executor)),
      inner_(inner),
      guardian_(guard),
      options_(std::move(options)),
      told_(std::move(told)),
      listener_(executor_),
      end_timer_(executor_) {
  listen();
}

survivor_spawner::~survivor_spawner() {
  alive_.end();
  kill_all();
  const auto until = std::chrono::steady_clock::now() + end_limit;
  for (const auto& [pid, one] : members_) {
    if (one->at != stage::ending) continue;
    inner_.reap_within(pid, until - std::chrono::steady_clock::now());
    guardian_.remove(pid);
  }
}

bool survivor_spawner::adopt(pid_t pid, ended_handler ended) {
  return inner_.adopt(pid, std::move(ended));
}

void survivor_spawner::signal_group(pid_t pid, int signal) {
  const auto found = members_.find(pid);
  if (found == members_.end()) return inner_.signal_group(pid, signal);
  member& one = *found->second;
  const bool is_asked_to_leave =
      signal == SIGTERM && leave_limit_ && one.at == stage::working && one.can_stay();
  if (is_asked_to_leave && !net::send_packet(one.link.native_handle(), "leave").failed()) {
    one.at = stage::leaving;
    return limit(one, *leave_limit_, [this, given = *leave_limit_](member& late) {
      told_.say("rank " + std::string(value_of("RANK", late.request.environment)) +
                " did not leave its round within " + to_text(given) +
                ", half of the time that it has to end: it gets SIGTERM, and does not live on");
      hush(late);
      late.at = stage::working;
      inner_.signal_group(late.pid, SIGTERM);
    });
  }
  // From here on it is being stopped, so a "left" that comes later must be ignored.
  if (one.at == stage::leaving && (signal == SIGKILL || signal == SIGTERM)) {
    hush(one);
    one.at = stage::working;
  }
  inner_.signal_group(pid, signal);
}

// Ignores all further messages and timers of this worker.
void survivor_spawner::hush(member& one) {
  error_code ignored;
  one.link.close(ignored);
  one.timer.cancel();
}

void survivor_spawner::reap(pid_t pid) {
  inner_.reap(pid);
}

bool survivor_spawner::reap_within(pid_t pid, duration limit) {
  return inner_.reap_within(pid, limit);
}

std::vector<pid_t> survivor_spawner::living_groups(const std::vector<pid_t>& groups) {
  return inner_.living_groups(groups);
}

bool survivor_spawner::owns(pid_t pid) const {
  return inner_.owns(pid);
}

bool survivor_spawner::waits(pid_t pid) const {
  const auto found = members_.find(pid);
  return found != members_.end() && found->second->at == stage::waiting;
}

spawn_result survivor_spawner::spawn(const spawn_request& request, spawn_handlers handlers) {
  if (auto given = give(request, handlers)) return std::move(*given);
  const auto one = std::make_shared<member>(executor_, request, std::move(handlers));
  auto child = inner_.spawn(request, handlers_of(one));
  if (!child) return child;
  one->pid = child->pid;
  // A worker with a terminal cannot stay: a later round could not resize that terminal.
  const bool has_pipes =
      child->output && child->errors && !request.output_terminal && !request.errors_terminal;
  if (has_pipes) {
    one->output = copy_of(child->output);
    one->errors = copy_of(child->errors);
  }
  members_[one->pid] = one;
  return child;
}

void survivor_spawner::begin_round() {
  nobody_stays();
  stayed_ = 0;
}

// None: no waiting worker fits.
std::optional<spawned_child> survivor_spawner::give(const spawn_request& request,
                                                    const spawn_handlers& handlers) {
  const auto local_rank_of = [](const spawn_request& of) {
    return value_of("LOCAL_RANK", of.environment);
  };
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& each) {
    return each.second->at == stage::waiting &&
           local_rank_of(each.second->request) == local_rank_of(request);
  });
  if (found == members_.end()) return std::nullopt;
  member& one = *found->second;
  const bool is_the_same = one.request.argv == request.argv &&
                           one.request.program == request.program &&
                           one.request.processors == request.processors &&
                           !request.output_terminal && !request.errors_terminal;
  unique_fd output = copy_of(one.output);
  unique_fd errors = copy_of(one.errors);
  // It cannot become this worker, so a new process is started in its place.
  if (!is_the_same || !output || !errors || !give_round(one, request)) {
    end(one);
    return std::nullopt;
  }
  one.at = stage::beginning;
  one.request = request;
  one.handlers = handlers;
  ++stayed_;
  limit(one, options_.begin_limit, [this](member& late) {
    late.hangs = "lived on from the round before, and did not begin this one within " +
                 to_text(options_.begin_limit);
    inner_.signal_group(late.pid, SIGKILL);
  });
  return spawned_child{one.pid, std::move(output), std::move(errors)};
}

bool survivor_spawner::give_round(member& one, const spawn_request& request) {
  const auto file = warm::make_memory_file(
      "ddprun-round", round_changes(one.request.environment, request.environment));
  return file && !net::send_packet(one.link.native_handle(), "round", {file->get()}).failed();
}

void survivor_spawner::listen() {
  auto socket = listen_at(options_.address);
  if (!socket)
    return told_.say("no worker can stay from round to round: " + socket.error().message());
  listener_.assign(socket->release());
  await_caller();
}

void survivor_spawner::await_caller() {
  listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                       while_alive(alive_.watch(), [this](error_code error) {
                         if (error) return;
                         take_callers();
                         await_caller();
                       }));
}

// Closes the connection of a process that is no worker, or is another process of a connected one.
void survivor_spawner::take_callers() {
  while (true) {
    unique_fd caller(
        ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!caller) return;
    const auto found = members_.find(session_of_caller(caller.get()));
    if (found == members_.end()) continue;
    member& one = *found->second;
    if (one.link.is_open() || one.at != stage::working || !one.output || !one.errors) continue;
    one.link.assign(caller.release());
    await_word(found->second);
  }
}

void survivor_spawner::await_word(const member_ptr& one) {
  one->link.async_wait(asio::posix::stream_descriptor::wait_read,
                       while_alive(std::weak_ptr<const void>(one),
                                   [this, &told = *one, watch = alive_.watch()](error_code error) {
                                     if (error || watch.expired()) return;
                                     const auto held = told.shared_from_this();
                                     take_word(told);
                                     if (!watch.expired() && told.link.is_open()) await_word(held);
                                   }));
}

void survivor_spawner::take_word(member& one) {
  const auto message = net::receive_packet(one.link.native_handle());
  if (!message) {
    if (message.error() != boost::system::errc::operation_would_block) hung_up(one);
    return;
  }
  if (message->text == "stay" && one.at == stage::working) {
    if (net::send_packet(one.link.native_handle(), "ok").failed()) hung_up(one);
  } else if (message->text == "left" && one.at == stage::leaving) {
    take_left(one);
  } else if (message->text == "begun" && one.at == stage::beginning) {
    take_begun(one);
  } else if (message->text != "left" || one.at != stage::working) {  // a late "left" is no error
    hung_up(one);
  }
}

void survivor_spawner::hung_up(member& one) {
  hush(one);
  switch (one.at) {
    case stage::working:
    case stage::ending:
      break;
    case stage::leaving:
      one.at = stage::working;
      inner_.signal_group(one.pid, SIGTERM);
      break;
    case stage::waiting:
      end(one);
      break;
    case stage::beginning:
      if (one.hangs.empty())
        one.hangs = "lived on from the round before, and left this one as it began";
      inner_.signal_group(one.pid, SIGKILL);
      break;
  }
}

void survivor_spawner::take_left(member& one) {
  one.timer.cancel();
  one.at = stage::waiting;
  // Moved out: the handler may destroy the spawner.
  const spawn_handlers told = std::exchange(one.handlers, {});
  told.left();
}

void survivor_spawner::take_begun(member& one) {
  one.timer.cancel();
  one.at = stage::working;
  const auto executed = std::move(one.handlers.executed);
  if (executed) executed();
}

void survivor_spawner::limit(member& one, duration after, std::function<void(member&)> then) {
  one.timer.expires_after(after);
  one.timer.async_wait(while_alive(
      std::weak_ptr<const void>(one.shared_from_this()),
      [&one, at = one.at, then = std::move(then), watch = alive_.watch()](error_code error) {
        if (!error && !watch.expired() && one.at == at) then(one);
      }));
}

spawn_handlers survivor_spawner::handlers_of(const member_ptr& one) {
  const std::weak_ptr<member> weak = one;
  spawn_handlers called;
  called.executed = [weak] {
    const auto told = weak.lock();
    if (!told) return;
    const auto executed = std::move(told->handlers.executed);
    if (executed) executed();
  };
  called.failed = [failed = one->handlers.failed,
                   forget = while_alive(alive_.watch(), [this, weak] {
                     if (const auto told = weak.lock()) members_.erase(told->pid);
                   })](const start_failure& why) mutable {
    forget();
    if (failed) failed(why);
  };
  // The lambda owns the member, because the spawner may be destroyed before the worker ends.
  called.ended = [this, one, watch = alive_.watch()](pid_t pid, exit_status status) {
    if (!watch.expired()) return child_ended(*one, pid, status);
    if (one->handlers.ended) one->handlers.ended(pid, status);
  };
  return called;
}

void survivor_spawner::child_ended(member& one, pid_t pid, exit_status status) {
  const auto held = one.shared_from_this();
  members_.erase(pid);
  hush(one);
  one.output.reset();
  one.errors.reset();
  if (one.at == stage::waiting || one.at == stage::ending) {
    // The processes that it has started belong to no round, and no stray_reaper looks for them.
    inner_.signal_group(pid, SIGKILL);
    inner_.reap(pid);
    guardian_.remove(pid);
    return tell_if_all_ended();
  }
  const auto executed = std::move(one.handlers.executed);
  if (one.at == stage::beginning && executed) executed();
  // Not earlier: until all workers are started, evidence_keeper resets which of them hang.
  if (!one.hangs.empty()) told_.hangs(pid, one.hangs);
  one.handlers.ended(pid, status);
}

// Ends a waiting worker that is not needed. Its end comes to child_ended().
void survivor_spawner::end(member& one, int signal) {
  hush(one);
  one.at = stage::ending;
  inner_.signal_group(one.pid, signal);
}

void survivor_spawner::end_all(duration grace, std::function<void()> done) {
  all_ended_ = std::move(done);
  for (const auto& [pid, one] : members_) {
    if (one->at == stage::waiting) end(*one, SIGTERM);
  }
  end_timer_.expires_after(grace);
  end_timer_.async_wait(while_alive(alive_.watch(), [this](error_code error) {
    if (!error) kill_all();
  }));
  boost::asio::post(executor_, while_alive(alive_.watch(), [this] { tell_if_all_ended(); }));
}

void survivor_spawner::kill_all() {
  for (const auto& [pid, one] : members_) {
    if (one->at == stage::waiting || one->at == stage::ending) end(*one);
  }
}

void survivor_spawner::tell_if_all_ended() {
  const bool some_end = std::any_of(members_.begin(), members_.end(), [](const auto& each) {
    return each.second->at == stage::waiting || each.second->at == stage::ending;
  });
  if (some_end || !all_ended_) return;
  end_timer_.cancel();
  // Moved out: it may destroy the spawner.
  const auto done = std::exchange(all_ended_, nullptr);
  done();
}

}  // namespace ddprun::launcher::survivors
