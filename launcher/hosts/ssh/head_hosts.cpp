// The head's part for one host: from its ssh to the last report of its agent.
#include "launcher/base/random_value.hpp"
#include "launcher/hosts/ssh/head.hpp"
#include "launcher/hosts/ssh/order.hpp"
#include "launcher/hosts/ssh/remote_script.hpp"
#include "launcher/network/own_addresses.hpp"
#include "launcher/report/own_json_line.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/log/own_line.hpp"
#include "rendezvous/net/host_name.hpp"
#include "rendezvous/net/resolve.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

// The limit for one try to connect: a host that is off is reported, and delays no other.
constexpr auto connect_limit = std::chrono::seconds(15);
// How long ssh may stay after the agent's last report: a stray process may hold its output, or the
// login shell may have more to do.
constexpr auto last_word_limit = std::chrono::seconds(5);
constexpr std::string_view own_mark = "ddprun: ";

std::string new_magic() {
  return "ddprun-" + to_hex(random_value<std::uint64_t>());
}

std::vector<std::string> blank_separated(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    if (end != 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end == std::string_view::npos ? end : end + 1));
  }
  return words;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : "\n" + std::string(log::detail_mark)) + line;
  return text;
}

std::string status_text(const link_end& end) {
  return end.status ? "ssh ended with " + end.status->describe() : "ssh was not started";
}

}  // namespace

std::string head::how_it_ended(const link_end& end) {
  return status_text(end) + (end.last_errors.empty() ? "" : ": " + end.last_errors.back());
}

namespace {

// What ssh has printed, otherwise how it has ended.
std::string why_no_connection(const link_end& end) {
  if (!end.last_errors.empty()) return joined(end.last_errors);
  std::string why = status_text(end) + ", and said nothing";
  if (!end.before_magic.empty()) {
    why += "; the login shell there printed this instead:\n" + std::string(log::detail_mark) +
           joined(end.before_magic);
  }
  return why;
}

}  // namespace

// Returns false if an earlier ssh has not ended yet.
bool head::connect(std::size_t host) {
  guest& one = guests_[host];
  if (one.link) return false;
  one.magic = new_magic();
  one.problem.clear();
  one.ended.reset();
  one.runs_since.reset();
  one.leaves_by.reset();
  if (!one.words) {
    one.words = std::make_unique<console>(name(host), run_id_, plan_.launch.log,
                                          [this](const std::string& line) { writer_.say(line); });
    if (has_color_) one.words->use_color();
  }
  one.link = std::make_unique<host_link>(
      context_.get_executor(), spawner_, writer_, host, one.magic,
      host_link::handlers{
          [this, host](std::string_view word, std::string_view rest) { hear(host, word, rest); },
          [this, host](std::string_view line) { return take_error(host, line); },
          [this, host](const link_end& end) { link_ended(host, end); }});
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(
      std::min<duration>(connect_limit, plan_.start_timeout * 3 / 4));
  one.link->start(ssh_words(plan_, host, first_command(one.magic), limit.count()), environment_);
  return true;
}

void head::hear(std::size_t host, std::string_view word, std::string_view rest) {
  guest& one = guests_[host];
  const stage at = rules_->stage_of(host);
  // Even from a host that was given up, this counts: its code may decide how the run ended.
  if (word == "end") {
    one.ended = read_agent_end(rest);
    one.link->end_within(last_word_limit);
  }
  // Late lines of a host that was given up, or a second "runs", start nothing.
  if (at != stage::connecting) return;
  if (word == "ready") {
    one.connection = rest;
    const bool is_given = !plan_.remote_program.empty();
    one.link->send(
        find_script(one.magic, {is_given ? plan_.remote_program : own_program_path()}, !is_given));
  } else if (word == "found") {
    say(note_level::debug, name(host) + ": runs " + std::string(rest));
  } else if (word == "missing") {
    send_copy_script(host, rest);
  } else if (word == "send") {
    say(note_level::info, name(host) + ": has no ddprun " + std::string(version) +
                              "; copying this one to " + std::string(rest));
    own_program_.read([&one](const program_copy& copy) {
      for (const program_copy::file& each : copy.files)
        one.link->send(each.bytes);
    });
  } else if (word == "failed") {
    start_failed(host, std::string(rest), unmet_exit_code);
  } else if (word == "agent") {
    send_order(host);
  } else if (word == "runs") {
    rules_->agent_runs(host);
    one.runs_since = std::chrono::steady_clock::now();
    watch_solitude();
    if (is_open()) return;
    // Report once that all agents run; an agent that is started again later is not news.
    if (rules_->count(stage::running) < plan_.hosts.size() || std::exchange(was_all_there_, true))
      return go_on();
    say(note_level::debug, "an agent runs on each of " + counted(plan_.hosts.size(), "host"));
    go_on();
  }
}

void head::send_copy_script(std::size_t host, std::string_view what_is_there) {
  if (!plan_.remote_program.empty()) {
    return start_failed(host,
                        "there is no ddprun " + std::string(version) + " that runs at " +
                            plan_.remote_program + " (--remote-ddprun)",
                        unmet_exit_code);
  }
  const std::size_t blank = what_is_there.find(' ');
  const std::string_view glibc =
      blank == std::string_view::npos ? "" : what_is_there.substr(blank + 1);
  const std::string why = why_it_cannot_run(what_is_there.substr(0, blank), glibc);
  if (!why.empty()) {
    return start_failed(host,
                        "it has no ddprun " + std::string(version) +
                            ", and this one cannot be copied there: " + why +
                            "; install it there, and name it with --remote-ddprun",
                        unmet_exit_code);
  }
  own_program_.read([this, host](const program_copy& copy) {
    guest& one = guests_[host];
    if (!one.link || rules_->stage_of(host) != stage::connecting) return;
    if (!copy.problem.empty()) return start_failed(host, copy.problem, unmet_exit_code);
    std::vector<sent_file> files;
    for (const program_copy::file& each : copy.files)
      files.push_back({each.name, each.sha256, each.bytes.size()});
    one.link->send(copy_script(one.magic, files));
  });
}

void head::send_order(std::size_t host) {
  guest& one = guests_[host];
  agent_place place;
  place.endpoint = endpoint_for(host);
  place.run_id = run_id_;
  place.is_at_head = embedded_->hosts();
  place.has_color = agents_have_color_;
  place.reports = host == reporter_ || (!reporter_ && (discovery_ || host == 0));
  if (place.reports) reporter_ = host;
  one.link->let_pass();
  one.link->send(encode(order{directory_, agent_words(plan_, host, place), plan_.variables}));
}

// The address from which ssh has come, as that host sees it, leads back here, unless something in
// between (a gateway, NAT) has replaced it.
std::string head::endpoint_for(std::size_t host) const {
  if (plan_.has_endpoint) return to_text(plan_.launch.endpoint);
  const std::vector<std::string> ends = blank_separated(guests_[host].connection);
  std::string address;
  if (!ends.empty()) {
    const auto seen = net::numeric_address(ends[0].substr(0, ends[0].find('%')));
    if (seen && is_own_address(*seen)) address = ends[0];
  }
  if (address.empty() && ends.size() > 2) {
    const auto other = net::numeric_address(ends[2].substr(0, ends[2].find('%')));
    const auto own = other ? own_address_towards(*other) : std::nullopt;
    if (own) address = own->to_string();
  }
  if (address.empty()) address = net::full_host_name();
  return to_text(cli::endpoint_address{address, daemon_port_});
}

// Shows the host's ddprun lines as ours, once for all hosts that say the same.
bool head::take_error(std::size_t host, std::string_view line) {
  guest& one = guests_[host];
  if (rules_->stage_of(host) != stage::running && line.starts_with(own_mark)) {
    one.problem = line.substr(own_mark.size());
    return true;
  }
  const auto own = read_own_json_line(line);
  if (!own) return false;
  const std::string key = std::to_string(own->round) + " " + own->message;
  if (own->level != note_level::debug && !said_.is_new(host, key)) return true;
  std::string text = own->message;
  for (const std::string& each : own->lines)
    text.append("\n").append(log::detail_mark).append(each);
  one.words->enter(own->round);
  one.words->say(own->level, text);
  return true;
}

void head::start_failed(std::size_t host, const std::string& why, int code) {
  rules_->give_up(host);
  if (guests_[host].link) guests_[host].link->signal(SIGKILL);
  if (is_open()) {
    const std::string later = let_rest(host, is_refused(why));
    return say(note_level::warning, name(host) + ": no agent was started" + later + ": " + why);
  }
  const bool is_first = faults_.is_empty();
  faults_.add(name(host), why);
  if (rules_->has_too_few() && !code_of_fault_) code_of_fault_ = code;
  // Other hosts may be found late in the same moment.
  boost::asio::post(context_, [this, is_first] { await_other_faults(is_first); });
}

void head::link_ended(std::size_t host, const link_end& end) {
  guest& one = guests_[host];
  const stage at = rules_->stage_of(host);
  // The link is on the call stack, so it is destroyed later.
  boost::asio::post(context_, [this, gone = std::shared_ptr<host_link>(std::move(one.link))] {
    finish_when_over();
  });
  if (host == reporter_) reporter_.reset();
  if (is_open() && settle_when_open(host, end)) return;
  if (at == stage::connecting && one.ended) {
    const std::string why = one.problem.empty() ? why_no_connection(end) : one.problem;
    return start_failed(host, why, one.ended->code);
  }
  if (at == stage::connecting) {
    const std::string why = why_no_connection(end);
    if (!rules_->connection_failed(host, why, std::chrono::steady_clock::now())) {
      return start_failed(host, why, unmet_exit_code);
    }
    say(note_level::debug, name(host) + ": dropped, and tried again: " + why);
    return arm_timer();
  }
  if (at != stage::running) return;
  rules_->agent_ended(host);
  if (one.ended) {
    end_.said.push_back(*one.ended);
    return;
  }
  say(note_level::warning, name(host) + ": its agent is lost: " + how_it_ended(end));
  look_for_enough(unmet_exit_code);
}

}  // namespace ddprun::launcher::ssh
