#include "launcher/warm/zygote.hpp"

#include "launcher/base/text.hpp"
#include "launcher/warm/memory_file.hpp"
#include "launcher/warm/site_zip.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace asio = boost::asio;

namespace ddprun::launcher::warm {
namespace {

// Returns what is before the first space, and what is after it.
std::pair<std::string_view, std::string_view> at_first_space(std::string_view text) {
  const std::size_t space = std::min(text.find(' '), text.size());
  return {text.substr(0, space), text.substr(std::min(space + 1, text.size()))};
}

template <typename Names>
std::string python_list(const Names& names) {
  std::string list = "[";
  for (const std::string& name : names)
    list += python_literal(name) + ", ";
  return list + "]";
}

std::string call_of(const zygote::options& options, const std::string& files) {
  return "import ddprun_site, ddprun_zygote\nddprun_zygote.hold(" + std::to_string(::getpid()) +
         ", " + python_literal(options.record) + ", " + python_literal(files) + ", " +
         python_list(options.rank_names) + ", " + python_list(options.excluded) + ", " +
         python_arguments(options.answers) + ")\n";
}

}  // namespace

struct zygote::state : std::enable_shared_from_this<zygote::state> {
  state(const asio::any_io_executor& executor, spawner& with, guardian& guard, log_mux& to,
        events called)
      : spawn(with), guardian_(guard), mux(to), handlers(std::move(called)), socket(executor) {}

  error_code start(const options& options);
  void listen();
  void hear(net::packet& said);
  void order(std::string_view word);

  spawner& spawn;
  guardian& guardian_;
  log_mux& mux;
  events handlers;
  asio::posix::stream_descriptor socket;
  unique_fd site;   // its Python reads it at its start
  unique_fd files;  // in which it writes what it has imported
  pid_t pid = -1;
};

zygote::zygote(asio::any_io_executor executor, spawner& spawn, guardian& guard, log_mux& mux,
               options values, events handlers)
    : state_(std::make_shared<state>(executor, spawn, guard, mux, std::move(handlers))) {
  const error_code error = state_->start(values);
  if (!error) return;
  asio::post(executor, while_alive(std::weak_ptr(state_), [&self = *state_, error] {
               self.handlers.ended("it cannot be started: " + error.message());
             }));
}

zygote::~zygote() {
  error_code ignored;
  state_->socket.close(ignored);
  if (state_->pid > 0) state_->spawn.signal_group(state_->pid, SIGKILL);
}

pid_t zygote::pid() const {
  return state_->pid;
}

void zygote::load() {
  state_->order("load");
}

void zygote::make_spare() {
  state_->order("spare");
}

// If the process is gone the order is lost, but its end is reported.
void zygote::state::order(std::string_view word) {
  if (!socket.is_open()) return;
  [[maybe_unused]] const error_code error = net::send_packet(socket.native_handle(), word);
}

error_code zygote::state::start(const options& options) {
  auto sockets = net::make_packet_sockets();
  auto errors = make_pipe();
  auto imported = make_memory_file("ddprun-files");
  if (!sockets) return sockets.error();
  if (!errors) return errors.error();
  if (!imported) return imported.error();
  files = std::move(*imported);
  auto made = make_site_zip(call_of(options, path_for_others(files)));
  if (!made) return made.error();
  site = std::move(*made);
  spawn_request request;
  request.program = options.program;
  request.argv = options.command;
  request.environment = with_site_zip(options.environment, path_for_others(site));
  // Its standard output is the socket, so only standard error is a pipe.
  request.capture = false;
  request.standard_output = sockets->theirs.get();
  request.standard_error = errors->write.get();
  request.announce_to = guardian_.announce_fd();
  spawn_handlers called;
  called.failed = while_alive(weak_from_this(), [this](const start_failure& why) {
    guardian_.remove(std::exchange(pid, -1));
    handlers.ended(why.describe());
  });
  called.ended = [weak = weak_from_this(), &with = spawn, &guard = guardian_](pid_t over,
                                                                              exit_status status) {
    with.reap(over);
    guard.remove(over);
    const auto self = weak.lock();
    if (!self) return;
    self->pid = -1;
    if (status.signal == SIGKILL) return self->handlers.killed();
    self->handlers.ended(status.describe());
  };
  auto started = spawn.spawn(request, std::move(called));
  if (!started) return system_error(started.error().error);
  pid = started->pid;
  guardian_.add(pid);
  log_mux::source said;
  said.pipe = std::move(errors->read);
  said.route.prefix = options.prefix;
  said.to = log::output_stream::errors;
  mux.add(std::move(said));
  socket.assign(sockets->ours.release());
  listen();
  return {};
}

void zygote::state::listen() {
  socket.async_wait(asio::posix::stream_descriptor::wait_read,
                    while_alive(weak_from_this(), [this](error_code error) {
                      if (error) return;
                      auto said = net::receive_packet(socket.native_handle());
                      // At its end, the spawner reports it.
                      if (said && said->text.empty()) return void(socket.close(error));
                      if (said) hear(*said);
                      if (socket.is_open()) listen();
                    }));
}

void zygote::state::hear(net::packet& said) {
  const auto [word, rest] = at_first_space(said.text);
  const auto [first, second] = at_first_space(rest);
  if (word == "ready") {
    handlers.ready(whole_number<std::size_t>(first).value_or(0), std::string(second),
                   text_of(files));
  } else if (word == "drop") {
    handlers.dropped(std::string(first), std::string(second));
  } else if (word == "refused") {
    handlers.refused(std::string(rest));
  } else if (word == "failed") {
    handlers.failed(std::string(rest));
  } else if (word == "short") {
    handlers.is_short(std::string(rest));
  } else if (word == "spare" &&
             said.descriptors.empty()) {  // the spare ends, because its socket is closed
    handlers.failed("no descriptor is left for spare workers");
  } else if (word == "spare") {
    handlers.spare(whole_number<pid_t>(first).value_or(-1), std::move(said.descriptors.front()));
  }
}

}  // namespace ddprun::launcher::warm
