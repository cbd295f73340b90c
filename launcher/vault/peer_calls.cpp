#include "launcher/vault/peer_calls.hpp"

#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr std::chrono::seconds dial_limit{5};
constexpr std::chrono::milliseconds pause_when_lost{500};

std::optional<line_stream> dial(const peer& other, const std::string& question,
                                std::string& problem) {
  auto stream = worker::blocking_stream::dial(other.address, other.port, duration::zero(),
                                              dial_limit, problem);
  if (!stream) return std::nullopt;
  line_stream lines(std::move(*stream));
  const error_code error = lines.send(std::string(greeting) + other.token + "\n" + question + "\n");
  if (!error) return lines;
  problem = error.message();
  return std::nullopt;
}

// Any other answer than the expected one is the reason of the failure.
outcome refused(const std::string& answer) {
  const bool is_why = answer.starts_with("no ");
  return {.problem = is_why ? in_one_line(to_valid_utf8(answer.substr(3))) : "unexpected answer"};
}

outcome lost(const error_code& error) {
  return {.problem = error.message(), .is_lost = true};
}

outcome get_once(const peer& other, std::uint32_t of, const version& what, int memory,
                 const std::function<bool(std::uint64_t bytes)>& has_room, origin& from,
                 const pace& go_on) {
  std::string problem;
  auto lines =
      dial(other, "get " + std::to_string(of) + " " + std::to_string(what.order) + " " + what.name,
           problem);
  if (!lines) return {.problem = problem, .is_lost = true};
  const auto answer = lines->line();
  if (!answer) return lost(answer.error());
  const auto head = read_head(*answer);
  if (!head) return refused(*answer);
  if (head->what != what) return {.problem = "it sends another entry"};
  if (!has_room(head->size)) return {.problem = "the vault has no room for it (--vault-size)"};
  remove_entry(memory, what.name);
  manifest made;
  outcome done = receive_files(*lines, *head, memory, {}, made, go_on);
  if (!done.is_done()) remove_entry(memory, what.name);
  from = std::move(made.from);
  return done;
}

}  // namespace

outcome tell_saver(const peer& other, std::uint32_t of) {
  std::string problem;
  auto lines = dial(other, "saves " + std::to_string(of), problem);
  if (!lines) return {.problem = problem};
  const auto answer = lines->line();
  if (!answer) return lost(answer.error());
  return *answer == "ok" ? outcome() : refused(*answer);
}

outcome put_entry(const peer& other, std::uint32_t of, const sent_entry& one, const pace& go_on) {
  std::string problem;
  auto lines = dial(other, "put " + std::to_string(of) + "\n" + head_of(one), problem);
  if (!lines) return {.problem = problem};
  auto answer = lines->line();
  if (!answer) return lost(answer.error());
  if (*answer == "have") return {};
  if (*answer != "send") return refused(*answer);
  if (outcome done = send_files(*lines, one, go_on); !done.is_done()) {
    // The other node may have sent its reason before it closed the connection.
    if (done.has_changed || done.is_damaged || done.is_abandoned) return done;
    answer = lines->line(std::chrono::seconds(1));
    return answer && answer->starts_with("no ") ? refused(*answer) : done;
  }
  answer = lines->line();
  if (!answer) return lost(answer.error());
  return *answer == "kept" ? outcome() : refused(*answer);
}

outcome get_entry(const peer& other, std::uint32_t of, const version& what, int memory,
                  const std::function<bool(std::uint64_t bytes)>& has_room, origin& from,
                  const pace& go_on) {
  outcome done;
  for (int tries = 1;; ++tries) {
    done = get_once(other, of, what, memory, has_room, from, go_on);
    if (!done.is_lost || tries == get_tries) return done;
    std::this_thread::sleep_for(pause_when_lost);
    if (!go_on(0)) return {.problem = "given up", .is_abandoned = true};
  }
}

}  // namespace ddprun::launcher::vault
