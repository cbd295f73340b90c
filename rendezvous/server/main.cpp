// ddprun-rendezvous: the daemon's main program.
#include "rendezvous/base/color.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/journal/sqlite_journal.hpp"
#include "rendezvous/journal/state_folder.hpp"
#include "rendezvous/log/own_line.hpp"
#include "rendezvous/log/writer.hpp"
#include "rendezvous/net/descriptor_limit.hpp"
#include "rendezvous/net/host_name.hpp"
#include "rendezvous/net/threads.hpp"
#include "rendezvous/server/daemon_options.hpp"
#include "rendezvous/server/server.hpp"
#include "rendezvous/server/service_manager.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

namespace {

using namespace ddprun;
using namespace ddprun::server;

constexpr std::size_t log_queue_bytes = 128 * 1024;
// How long the last log lines may take to reach their reader.
constexpr auto log_limit_at_end = std::chrono::seconds(2);

spdlog::level::level_enum to_spdlog(note_level level) {
  switch (level) {
    case note_level::debug:
      return spdlog::level::debug;
    case note_level::info:
      return spdlog::level::info;
    case note_level::warning:
      return spdlog::level::warn;
    case note_level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

note_level from_spdlog(spdlog::level::level_enum level) {
  for (const note_level one :
       {note_level::debug, note_level::info, note_level::warning, note_level::error}) {
    if (to_spdlog(one) == level) return one;
  }
  return note_level::info;
}

// Queues its lines, so that a reader that does not read does not block the loop that serves the
// rounds.
class queued_log final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  queued_log(std::shared_ptr<log::writer> out, log_style style, bool is_colored)
      : out_(std::move(out)), style_(style), is_colored_(is_colored) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const note_level level = from_spdlog(message.level);
    const timespec now = log::wall_clock();
    if (style_.format == log_format::json) {
      static const log::line_origin origin{"ddprun-rendezvous", net::short_host_name(), ""};
      return void(out_->say(log::json_line(origin, style_.time, now, level, 0, text)));
    }
    std::string line = log::time_text(style_.time, now);
    if (!line.empty()) line += ' ';
    out_->say(line.append(log::level_mark(level, is_colored_)).append(" ").append(text) + "\n");
  }
  void flush_() override {}

  std::shared_ptr<log::writer> out_;
  log_style style_;
  bool is_colored_;
};

int fail(int code, const std::string& text) {
  std::fprintf(stderr, "ddprun-rendezvous: %s\n", text.c_str());
  return code;
}

// Writes a temporary file and renames it, so that a reader never sees half a number.
bool write_port_file(const std::string& path, std::uint16_t port, std::string& problem) {
  const std::string temporary = path + "." + std::to_string(::getpid());
  const auto failed = [&](const std::string& what) {
    problem = "cannot write --port-file " + what + ": " + std::strerror(errno);
    std::remove(temporary.c_str());
    return false;
  };
  std::FILE* const file = std::fopen(temporary.c_str(), "we");
  if (file == nullptr) return failed(temporary);
  const bool printed = std::fprintf(file, "%u\n", static_cast<unsigned>(port)) > 0;
  if (std::fclose(file) != 0 || !printed) return failed(temporary);
  return std::rename(temporary.c_str(), path.c_str()) == 0 || failed(path);
}

// Empty: nothing is persisted.
std::string state_folder_of(const daemon_options& options) {
  if (options.state_folder) return *options.state_folder == "none" ? "" : *options.state_folder;
  if (options.port == 0) return {};
  return journal::default_state_folder(std::getenv, net::short_host_name(), options.port);
}

std::string agents_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " agent" : " agents");
}

server_options server_options_of(const daemon_options& options, const std::string& folder) {
  server_options wanted;
  wanted.bind_address = options.bind_address;
  wanted.port = options.port;
  wanted.daemon.recovery_window = options.recovery_window;
  if (!folder.empty()) wanted.daemon.open_journal = journal::in_folder(folder);
  wanted.journal_is_ours = true;
  wanted.daemon.allows_other_users = options.allows_other_users;
  wanted.store_limits.bytes_max = options.store_bytes_max;
  wanted.daemon.log = [](note_level level, const std::string& text) {
    spdlog::log(to_spdlog(level), text);
  };
  return wanted;
}

// The service manager's sockets, which replace --bind and --port. They are taken before anything
// else is opened, because a wrong number in the environment could name a descriptor opened later.
std::vector<int> take_sockets(daemon_options& options, std::string& problem) {
  const auto sockets = inherited_sockets(environment_from(::environ), ::getpid());
  if (!sockets) {
    problem = sockets.error().text;
    return {};
  }
  if (sockets->empty()) return {};
  if (const auto port = net::listening_port(sockets->front(), problem)) options.port = *port;
  return *sockets;
}

void say_where(const daemon_options& options, std::uint16_t port, bool is_inherited,
               std::size_t descriptors, const std::string& folder) {
  const std::string address = options.bind_address.empty() ? "::" : options.bind_address;
  spdlog::info("ddprun-rendezvous {} listens on {}; room for {} connections", version,
               is_inherited ? "port " + std::to_string(port) + ", given by the service manager"
                            : net::endpoint_text(address, port),
               descriptors);
  if (folder.empty()) {
    spdlog::info("persists nothing (no state folder)");
  } else {
    spdlog::info("persists its state in {}", folder);
  }
}

int serve(const daemon_options& options, const std::vector<int>& sockets, log::writer& out) {
  const auto fail = [&out](int code, const std::string& text) {
    // Through the writer, so that it comes after the lines that are queued already.
    out.say("ddprun-rendezvous: " + text + "\n");
    return code;
  };
  const std::size_t descriptors = net::raise_descriptor_limit();
  if (const std::string too_few = net::too_few_descriptors(descriptors); !too_few.empty())
    return fail(failed_exit_code, too_few);
  boost::asio::io_context io(1);
  std::string problem;
  const std::string folder = state_folder_of(options);
  server_options wanted = server_options_of(options, folder);
  wanted.open_sockets = sockets;
  service_manager manager(io.get_executor(), environment_from(::environ), ::getpid());
  ddprun::server::server daemon(io.get_executor(), std::move(wanted));
  // These signals would end the process. They come from a closing terminal or a batch system.
  for (const int number : {SIGHUP, SIGUSR1, SIGUSR2})
    std::signal(number, SIG_IGN);
  // Installed before the port is published: its reader may stop us at once.
  boost::asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([&](const error_code& error, int number) {
    if (error) return;
    spdlog::info("stopping on {}", signal_name(number));
    manager.stopping();
    daemon.stop();
    io.stop();
  });
  const auto port = daemon.start(problem);
  if (!port) return fail(failed_exit_code, problem);
  if (!options.port_file.empty() && !write_port_file(options.port_file, *port, problem)) {
    return fail(failed_exit_code, problem);
  }
  out.push(log::output_stream::output, "listening on port " + std::to_string(*port) + "\n");
  say_where(options, *port, !sockets.empty(), descriptors, folder);
  const std::string untold = manager.ready([&daemon, port = *port] {
    return "listens on port " + std::to_string(port) + ", " + agents_text(daemon.joined_count());
  });
  if (!untold.empty()) spdlog::warn("{}", untold);
  net::run_loop(io, [](const std::string& text) { spdlog::error("{}", text); });
  return 0;
}

int serve_with_log(const daemon_options& options, const std::vector<int>& sockets) {
  log::writer::options streams;
  streams.name = "ddprun-rendezvous";
  streams.queue_bytes = log_queue_bytes;
  const auto out = std::make_shared<log::writer>(std::move(streams));
  const bool is_colored =
      ddprun::is_colored(options.color, ::isatty(STDERR_FILENO) == 1, environment_from(::environ));
  const auto log = std::make_shared<spdlog::logger>(
      "ddprun-rendezvous", std::make_shared<queued_log>(out, options.log.style, is_colored));
  log->set_level(to_spdlog(options.log.least));
  spdlog::set_default_logger(log);
  const int code = serve(options, sockets, *out);
  out->finish(log_limit_at_end);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // Otherwise a socket or the journal could be number 2, and get the lines of the log.
  ddprun::ensure_standard_descriptors();
  ddprun::outlive_file_size_limit();
  // A closed reader of our output must not end the daemon.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const daemon_outcome outcome =
        parse_daemon_options(std::vector<std::string>(argv + 1, argv + argc));
    if (const auto* const error = std::get_if<cli::usage_error>(&outcome)) {
      return fail(usage_exit_code, error->text);
    }
    if (const auto* const shown = std::get_if<cli::show_text>(&outcome)) {
      std::fputs(shown->text.c_str(), stdout);
      return 0;
    }
    auto options = std::get<daemon_options>(outcome);
    std::string problem;
    const std::vector<int> sockets = take_sockets(options, problem);
    return problem.empty() ? serve_with_log(options, sockets) : fail(failed_exit_code, problem);
  } catch (const std::exception& error) {
    return fail(failed_exit_code, error.what());
  }
}
