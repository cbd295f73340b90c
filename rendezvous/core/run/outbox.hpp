// Collects the effects of one step of a run, in order, and numbers the states that agents are told.
//
// Ownership: the effects belong to the caller; they are borrowed for one step.
#pragma once

#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/nodes.hpp"
#include "rendezvous/core/run/run_machine.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::core {

class outbox {
 public:
  explicit outbox(std::uint64_t epoch = 0) : epoch_(epoch) {}

  void begin_step(run_effects& effects) { effects_ = &effects; }
  void end_step() { effects_ = nullptr; }

  void note(note_level level, std::string text) {
    effects_->push_back(run_note{level, std::move(text)});
  }
  // A warning that anyone who reaches the port can cause, so its rate is limited.
  void note_refusal(std::string text) {
    effects_->push_back(run_note{note_level::warning, std::move(text), true});
  }
  void send(const node& to, message_pointer message) {
    if (to.connection != 0) effects_->push_back(send_to_agent{to.connection, std::move(message)});
  }
  // Sets what the node should do from now on, also after a reconnect. Null: nothing.
  void want(node& of, message_pointer message) {
    of.wanted = std::move(message);
    of.wanted_seq = of.wanted ? std::get<desired>(*of.wanted).seq : 0;
    of.notice_seen = 0;
    send(of, of.wanted);
  }
  void disconnect(connection_id connection) {
    effects_->emplace_back(disconnect_agent{connection});
  }
  // Refuses a connection that has not become a node.
  void refuse(connection_id connection, const std::string& node, std::string text, int exit_code) {
    note_refusal("refused " + node + ": " + text);
    // Made in place: g++ 12 at -O2 takes a moved temporary of the variant for uninitialised.
    effects_->emplace_back(send_to_agent{
        connection, std::make_shared<const daemon_message>(refused{exit_code, std::move(text)})});
    disconnect(connection);
  }
  void persist(std::uint64_t revision, std::optional<run_record> record) {
    effects_->push_back(persist_record{revision, std::move(record)});
  }

  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t seq() const { return seq_; }  // of the newest state that was sent
  std::uint64_t next_seq() { return ++seq_; }
  // An earlier daemon may have counted further than this one. A number that no daemon can reach is
  // a lie, and is ignored: counting on from it would give numbers that JSON readers cannot hold.
  void raise_seq(std::uint64_t said) {
    if (said <= count_said_max) seq_ = std::max(seq_, said);
  }

 private:
  run_effects* effects_ = nullptr;  // of the current step
  std::uint64_t epoch_;
  std::uint64_t seq_ = 0;
};

}  // namespace ddprun::core
