#include "launcher/hosts/mpi/pmi1.hpp"

#include "launcher/base/text.hpp"
#include "launcher/network/own_addresses.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::hosts::mpi {
namespace {

constexpr std::size_t pmi_line_bytes_max = 64 << 10;

std::string pmi1_words_of_errno() {
  return std::strerror(errno);
}

std::string shown(std::string_view line) {
  constexpr std::size_t length_max = 80;
  std::string text;
  for (const char each : line.substr(0, length_max))
    text += each >= ' ' && each < 127 ? each : '?';
  return "\"" + text + (line.size() > length_max ? "...\"" : "\"");
}

// The launcher's process on this host serves the port, often under a host name that does not
// resolve.
cli::parsed<unique_fd> connect_to(const std::string& place) {
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos)
    return cli::usage_error{"PMI_PORT=" + place + " is not HOST:PORT"};
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string said = place.substr(0, colon);
  const std::string host = is_own_name(said) ? "localhost" : said;
  const int failure = ::getaddrinfo(host.c_str(), place.substr(colon + 1).c_str(), &hints, &found);
  if (failure != 0) return cli::usage_error{"PMI_PORT=" + place + ": " + ::gai_strerror(failure)};
  unique_fd connection;
  for (const addrinfo* each = found; each != nullptr && !connection; each = each->ai_next) {
    unique_fd tried(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (tried && ::connect(tried.get(), each->ai_addr, each->ai_addrlen) == 0)
      connection = std::move(tried);
  }
  const std::string words = pmi1_words_of_errno();
  ::freeaddrinfo(found);
  if (!connection) return cli::usage_error{"PMI_PORT=" + place + ": " + words};
  return connection;
}

}  // namespace

cli::parsed<pmi1_fields> read_pmi1_answer(std::string_view line, std::string_view command) {
  pmi1_fields fields;
  std::string_view rest = line;
  while (!rest.empty()) {
    const std::size_t blank = std::min(rest.find(' '), rest.size());
    const std::string_view part = rest.substr(0, blank);
    rest.remove_prefix(std::min(blank + 1, rest.size()));
    const std::size_t equals = part.find('=');
    // A message may have several words.
    if (equals == std::string_view::npos || equals == 0) continue;
    fields.emplace(part.substr(0, equals), part.substr(equals + 1));
  }
  const auto name = fields.find("cmd");
  if (name == fields.end())
    return cli::usage_error{"its PMI gives an invalid answer: " + shown(line)};
  const auto code = fields.find("rc");
  if (name->second != command || (code != fields.end() && code->second != "0")) {
    return cli::usage_error{"its PMI answered " + shown(line) + " instead of " +
                            std::string(command)};
  }
  return fields;
}

cli::parsed<std::unique_ptr<pmi1_exchange>> pmi1_exchange::open(const environment_map& environment,
                                                                deadline until) {
  if (const std::string* const port = find_variable(environment, "PMI_PORT")) {
    auto connection = connect_to(*port);
    if (!connection) return connection.error();
    const std::string id = variable_or_empty(environment, "PMI_ID");
    return begin(std::move(*connection), until, id.empty() ? "0" : id);
  }
  const std::string text = variable_or_empty(environment, "PMI_FD");
  const auto number = whole_number<int>(text);
  if (!number || *number < 3 || ::fcntl(*number, F_SETFD, FD_CLOEXEC) != 0) {
    return cli::usage_error{"PMI_FD=" + text +
                            " is not a descriptor that this process has inherited: whatever stands "
                            "between the launcher and ddprun has closed it"};
  }
  return begin(unique_fd(*number), until);
}

cli::parsed<std::unique_ptr<pmi1_exchange>> pmi1_exchange::begin(unique_fd connection,
                                                                 deadline until,
                                                                 const std::string& id) {
  std::unique_ptr<pmi1_exchange> made(new pmi1_exchange(std::move(connection), until));
  if (!id.empty()) {
    if (auto wrong = made->acknowledge(id)) return std::move(*wrong);
  }
  if (auto wrong = made->greet()) return std::move(*wrong);
  return made;
}

cli::checked pmi1_exchange::put(const std::string& key, const std::string& value) {
  const auto done =
      ask("cmd=put kvsname=" + space_ + " key=" + key + " value=" + value, "put_result");
  if (!done) return done.error();
  return {};
}

cli::checked pmi1_exchange::fence() {
  const auto done = ask("cmd=barrier_in", "barrier_out");
  if (!done) return done.error();
  return {};
}

cli::parsed<std::string> pmi1_exchange::get(std::uint32_t, const std::string& key) {
  auto fields = ask("cmd=get kvsname=" + space_ + " key=" + key, "get_result");
  if (!fields) return fields.error();
  const auto value = fields->find("value");
  if (value == fields->end()) return cli::usage_error{"its PMI gave an answer without a value"};
  return good(std::move(value->second));
}

cli::checked pmi1_exchange::finish() {
  const auto done = ask("cmd=finalize", "finalize_ack");
  connection_.reset();
  if (!done) return done.error();
  return {};
}

// At a port, tells who this is, and learns its rank and size.
cli::checked pmi1_exchange::acknowledge(const std::string& id) {
  const auto known = ask("cmd=initack pmiid=" + id, "initack");
  if (!known) return known.error();
  for (int line = 0; line < 3; ++line) {  // size, rank, debug
    const auto text = next_line();
    if (!text) return text.error();
    const auto fields = read_pmi1_answer(*text, "set");
    if (!fields) return fields.error();
    for (const auto& [name, value] : *fields) {
      if (name == "size") size_ = whole_number<std::uint32_t>(value);
      if (name == "rank") rank_ = whole_number<std::uint32_t>(value);
    }
  }
  if (!size_ || !rank_ || *rank_ >= *size_)
    return cli::usage_error{"its PMI does not say which rank this process has"};
  return {};
}

cli::checked pmi1_exchange::greet() {
  const auto hello = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  if (!hello) return hello.error();
  const auto version = hello->find("pmi_version");
  if (version == hello->end() || version->second != "1")
    return cli::usage_error{"its PMI is not of version 1"};
  // Some launchers expect this request before any put.
  const auto limits = ask("cmd=get_maxes", "maxes");
  if (!limits) return limits.error();
  const auto longest = limits->find("vallen_max");
  const auto bytes =
      longest == limits->end() ? std::nullopt : whole_number<std::size_t>(longest->second);
  if (!bytes || *bytes <= value_bytes_max)
    return cli::usage_error{"its PMI takes no values of " + std::to_string(value_bytes_max) +
                            " bytes"};
  const auto space = ask("cmd=get_my_kvsname", "my_kvsname");
  if (!space) return space.error();
  const auto name = space->find("kvsname");
  if (name == space->end() || name->second.empty())
    return cli::usage_error{"its PMI has no name for its key-value space"};
  space_ = name->second;
  return {};
}

cli::parsed<pmi1_fields> pmi1_exchange::ask(const std::string& line, std::string_view answer) {
  if (!connection_) return cli::usage_error{"its PMI has been left already"};
  if (auto wrong = send(line + "\n")) return std::move(*wrong);
  const auto text = next_line();
  if (!text) return text.error();
  return read_pmi1_answer(*text, answer);
}

cli::checked pmi1_exchange::wait_for(short events, std::string_view what) const {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until_ - std::chrono::steady_clock::now());
    pollfd waited = {connection_.get(), events, 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&waited, 1, static_cast<int>(left.count()));
    if (ready > 0) return {};
    if (ready == 0) return cli::usage_error{std::string(what) + " in time"};
    if (errno != EINTR) return cli::usage_error{"its PMI: " + pmi1_words_of_errno()};
  }
}

cli::checked pmi1_exchange::send(std::string line) {
  while (!line.empty()) {
    if (auto wrong = wait_for(POLLOUT, "its PMI accepted no data")) return wrong;
    ssize_t sent = ::send(connection_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == ENOTSOCK) sent = ::write(connection_.get(), line.data(), line.size());
    if (sent < 0 && errno != EINTR && errno != EAGAIN)
      return cli::usage_error{"its PMI cannot be written to: " + pmi1_words_of_errno()};
    if (sent > 0) line.erase(0, static_cast<std::size_t>(sent));
  }
  return {};
}

cli::parsed<std::string> pmi1_exchange::next_line() {
  for (;;) {
    const std::size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return good(std::move(line));
    }
    if (received_.size() > pmi_line_bytes_max)
      return cli::usage_error{"its PMI sends a line without an end: " + shown(received_)};
    if (auto wrong = wait_for(POLLIN,
                              "some of its processes did not reach its PMI, or that did not "
                              "answer,"))
      return std::move(*wrong);
    char bytes[4096];
    const ssize_t count = ::read(connection_.get(), bytes, sizeof bytes);
    if (count == 0) return cli::usage_error{"its PMI has closed the connection"};
    if (count < 0 && errno != EINTR && errno != EAGAIN)
      return cli::usage_error{"its PMI: " + pmi1_words_of_errno()};
    if (count > 0) received_.append(bytes, static_cast<std::size_t>(count));
  }
}

}  // namespace ddprun::launcher::hosts::mpi
