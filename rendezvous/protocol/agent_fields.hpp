// The fields of each message of agent_protocol.hpp, each written once: its name, its limits, and
// whether it may be left out.
//
// `fields_of(on, message)` is called with a `fields` (json_fields.hpp), which reads into the
// message, or a `field_writer` (agent_encode.cpp), which writes it. The order is that on the wire.
// Both have the same verbs:
//   number, count, u32, port       integers; an empty optional is left out
//   timer                          a duration, in microseconds
//   age                            the same, clamped to its range when it is written
//   flag, hexadecimal, session, word
//   label, sentence, tail, labels  text: names, sentences, the end of a worker's stderr
//   opaque                         text that is passed on unchanged, or left out
//   object, list                   nested messages
//   ends                           how ranks ended, one text for each way
//   check                          a condition that the values read must meet
#pragma once

#include "rendezvous/core/messages/settings_table.hpp"
#include "rendezvous/core/messages/validation.hpp"
#include "rendezvous/protocol/agent_protocol.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace ddprun::protocol {

enum class presence {
  if_any,    // left out if it is 0, "", false, or empty
  always,    // always written; if it is missing, the default applies
  required,  // a message without it is malformed
};

// The `type` on the wire.
template <typename Message>
inline constexpr std::string_view type_name{};
template <>
inline constexpr std::string_view type_name<hello> = "hello";
template <>
inline constexpr std::string_view type_name<status> = "status";
template <>
inline constexpr std::string_view type_name<goodbye> = "goodbye";
template <>
inline constexpr std::string_view type_name<guardian_word> = "guardian_word";
template <>
inline constexpr std::string_view type_name<tether_hello> = "tether_hello";
template <>
inline constexpr std::string_view type_name<tether_beat> = "tether_beat";
template <>
inline constexpr std::string_view type_name<tether_ack> = "tether_ack";
template <>
inline constexpr std::string_view type_name<welcome> = "welcome";
template <>
inline constexpr std::string_view type_name<ack> = "ack";
template <>
inline constexpr std::string_view type_name<desired> = "desired";
template <>
inline constexpr std::string_view type_name<round_report> = "report";
template <>
inline constexpr std::string_view type_name<refused> = "refused";
template <>
inline constexpr std::string_view type_name<not_primary> = "not_primary";

// Accepts a message to read into, or a const one to write.
template <typename Given, typename Message>
concept some = std::same_as<std::remove_const_t<Given>, Message>;

inline constexpr std::uint32_t u32_max = std::numeric_limits<std::uint32_t>::max();

void fields_of(auto& on, some<cause> auto& value) {
  on.count("round", value.round, presence::always);
  on.u32("group_rank", value.group_rank, presence::always);
  on.label("node", value.node);
  on.word("kind", value.kind, cause_class::operator_stop, "kind of cause");
  on.u32("rank", value.rank);
  on.u32("local_rank", value.local_rank);
  on.number("process", value.process, 0, count_max);
  on.number("code", value.code, -core::cause_code_max, core::cause_code_max);
  on.flag("by_our_stop", value.by_our_stop);
  on.flag("is_secondary", value.is_secondary);
  on.flag("was_failing", value.was_failing);
  on.age("age_us", value.age, age_max);
  on.sentence("text", value.text);
  on.tail("tail", value.tail, tail_bytes_max);
}

void fields_of(auto& on, some<tether_age> auto& value) {
  on.u32("group_rank", value.group_rank, presence::always);
  on.age("age_us", value.age, age_max);
}

void fields_of(auto& on, some<role_ranks> auto& value) {
  on.u32("rank_first", value.rank_first, presence::always);
  on.number("world_size", value.world_size, 1, u32_max, presence::always);
}

// These fields stand directly in the message that has them.
void fields_of(auto& on, some<leader_data> auto& value) {
  on.opaque("leader_data", value.bytes, leader_data_bytes_max);
  on.label("leader_data_about", value.about);
}

void fields_of(auto& on, some<assignment> auto& value) {
  on.u32("group_rank", value.group_rank, presence::always);
  on.number("group_world_size", value.group_world_size, 1, nodes_per_run_max, presence::always);
  on.u32("rank_first", value.rank_first, presence::always);
  on.number("world_size", value.world_size, 1, u32_max, presence::always);
  on.object("in_role", value.in_role);
  on.label("master_address", value.master_address);
  on.port("master_port", value.master_port);
  on.port("tether_port", value.tether_port);
  on.label("leader_node", value.leader_node);
  fields_of(on, value.leader_data);
  on.check("group_rank", value.group_rank < value.group_world_size,
           "is not below group_world_size");
  on.check("rank_first", value.rank_first < value.world_size, "is not below world_size");
}

// Fields that are missing follow from the others, as on the command line.
template <some<timers> Timers>
void fields_of(auto& on, Timers& value) {
  const auto field = [&on](const timer_row& row, auto& one) {
    on.timer(std::string(row.name) + "_us", one, row.min, presence::always);
  };
  if constexpr (std::is_const_v<Timers>) {
    for (const timer_row& row : timer_table)
      field(row, value.*row.field);
  } else {
    value = read_timers(field);
    const std::string problem = problem_of(value);
    on.check("", problem.empty(), problem);
  }
}

void fields_of(auto& on, some<run_settings> auto& value) {
  for_each_setting([&](const auto& row) {
    if constexpr (std::same_as<decltype(row), const range_row&>) {
      on.number(row.min_name, value.*row.min_field, 1, row.max, presence::always);
      on.number(row.max_name, value.*row.max_field, 1, row.max, presence::always);
      on.check(row.min_name, value.*row.min_field <= value.*row.max_field, "is over ",
               row.max_name);
    } else if constexpr (std::same_as<decltype(row), const count_row&>) {
      on.number(row.wire_name, value.*row.field, 0, row.max, presence::always);
    } else {
      on.word(row.wire_name, value.*row.field, row.last, row.what);
    }
  });
  on.object("timing", value.timing);
}

void fields_of(auto& on, some<stalled_ranks> auto& value) {
  on.u32("first", value.first, presence::always);
  on.u32("last", value.last, presence::always);
  on.word("kind", value.kind, stall_kind::waits, "kind of place");
  on.label("words", value.words);
  on.check("last", value.first <= value.last, "is below first");
}

void fields_of(auto& on, some<stall> auto& value) {
  on.age("age_us", value.age, age_max);
  on.flag("learnt", value.is_learnt);
  on.list("ranks", value.ranks, stalled_ranks_max);
}

void fields_of(auto& on, some<hung_rank> auto& value) {
  on.u32("rank", value.rank, presence::always);
  on.sentence("text", value.text);
}

void fields_of(auto& on, some<status> auto& value) {
  on.count("seq", value.seq);
  on.count("epoch", value.epoch);
  on.hexadecimal("instance", value.instance);
  on.count("round", value.round);
  on.count_or("round_told", value.round_told, value.round);
  on.count("desired_seq", value.desired_seq);
  on.word("phase", value.phase, member_phase::lost, "phase");
  on.object("assignment", value.assignment);
  on.age("ran_us", value.ran, age_max);
  on.port("service_port", value.service_port);
  on.port("master_port", value.master_port);
  fields_of(on, value.leader_data);
  on.u32("restarts_used", value.restarts_used);
  on.u32("restarts_forgiven", value.restarts_forgiven);
  on.u32("unkillable", value.unkillable);
  on.count("restored", value.restored);
  on.sentence("unhealthy", value.unhealthy);
  on.flag("succeeded", value.succeeded);
  on.flag("draining", value.draining);
  on.number("signal", value.signal, 0, 64);
  on.list("causes", value.causes, causes_max);
  on.ends("ends", value.ends);
  on.list("tether_ages", value.tether_ages, tether_ages_max);
  on.object("stall", value.stall);
}

void fields_of(auto& on, some<started_job> auto& value) {
  on.label("digest", value.digest);
  on.label("program", value.program);
  on.label("started", value.started);
  on.label("node", value.node);
}

void fields_of(auto& on, some<hello> auto& value) {
  on.number("protocol", value.protocol, 0, u32_max, presence::required);
  on.sentence("version", value.version);  // agents of 0.1.0 send a line feed at its end
  on.check_version(value);
  on.label("token", value.token);
  on.label("run_id", value.run_id, presence::required);
  on.check("run_id", !value.run_id.empty(), "is empty");
  on.session("session", value.session);
  on.label("node", value.node);
  on.flag("node_is_explicit", value.node_is_explicit);
  on.label("host", value.host);
  on.number("worker_count", value.worker_count, 1, workers_per_node_max, presence::always);
  on.u32("node_rank", value.node_rank);
  on.label_or("role", value.role, hello().role);
  on.label("address", value.address);
  on.label("own_address", value.own_address);
  on.flag("hosts_daemon", value.hosts_daemon);
  on.object("job", value.job);
  on.label_or("script", value.script, value.job ? value.job->program : std::string());
  on.object("settings", value.settings);
  on.object("state", value.state);
}

void fields_of(auto& on, some<goodbye> auto& value) {
  on.session("session", value.session);
}

void fields_of(auto& on, some<guardian_word> auto& value) {
  on.label("run_id", value.run_id, presence::required);
  on.session("session", value.session);
  on.hexadecimal("instance", value.instance);
  on.count("round", value.round);
  on.number("group_rank", value.group_rank, 0, u32_max);
  on.label("node", value.node);
  on.u32("rank_first", value.rank_first);
  on.number("worker_count", value.worker_count, 0, workers_per_node_max);
}

void fields_of(auto& on, some<tether_hello> auto& value) {
  on.hexadecimal("instance", value.instance, presence::required);
  on.count("round", value.round, presence::required);
  on.session("session", value.session);
  on.u32("group_rank", value.group_rank, presence::always);
  on.count("epoch", value.epoch);
}

void fields_of(auto& on, some<tether_beat> auto& value) {
  on.count("seq", value.seq, presence::always);
  on.flag("succeeded", value.succeeded);
}

void fields_of(auto& on, some<tether_ack> auto& value) {
  on.count("seq", value.seq, presence::always);
}

void fields_of(auto& on, some<welcome> auto& value) {
  on.count("epoch", value.epoch);
  on.label("version", value.version);
  on.object("timing", value.timing);
}

void fields_of(auto& on, some<ack> auto& value) {
  on.count("seq", value.seq, presence::always);
}

void fields_of(auto& on, some<departure> auto& value) {
  on.sentence("what", value.what);
  on.age("age_us", value.age, age_max);
  on.sentence("why", value.why);
}

void fields_of(auto& on, some<desired> auto& value) {
  on.count("epoch", value.epoch);
  on.hexadecimal("instance", value.instance);
  on.count("round", value.round);
  on.count("seq", value.seq);
  on.word("phase", value.phase, desired_phase::close, "phase", presence::required);
  on.u32("restarts_used", value.restarts_used);
  on.u32("restarts_forgiven", value.restarts_forgiven);
  on.u32("world_size", value.world_size);
  on.u32("group_world_size", value.group_world_size);
  on.label("master_address", value.master_address);
  on.object("assignment", value.assignment);
  on.sentence("members", value.members);
  on.timer("grace_us", value.grace);
  on.number("signal", value.signal, 0, 64);
  on.number("exit_code", value.exit_code, 0, 255);
  on.flag("unreported", value.is_unreported);
  on.flag("ordinary", value.is_ordinary);
  on.object("root_cause", value.root_cause);
  on.sentence("text", value.text);
  on.timer("left_us", value.left);
  on.flag("last_call", value.is_last_call);
  on.object("gone", value.gone);
  on.sentence("news", value.news);
  on.sentence("warning", value.warning);
  on.object("job", value.job);
  on.object("hung", value.hung);
}

void fields_of(auto& on, some<round_report> auto& value) {
  on.hexadecimal("instance", value.instance, presence::required);
  on.count("round", value.round, presence::required);
  on.number("world_size", value.world_size, 1, u32_max, presence::always);
  on.number("group_world_size", value.group_world_size, 1, nodes_per_run_max, presence::always);
  on.age("lasted_us", value.lasted, age_max);
  on.object("root_cause", value.root_cause);
  on.ends("ends", value.ends);
  on.u32("restarts_used", value.restarts_used);
  on.u32("restarts_forgiven", value.restarts_forgiven);
  on.u32("restarts_max", value.restarts_max);
  on.flag("last", value.is_last);
  on.number("exit_code", value.exit_code, 0, 255);
  on.sentence("text", value.text);
}

void fields_of(auto& on, some<refused> auto& value) {
  on.number("exit_code", value.exit_code, 0, 255, presence::always);
  on.sentence("text", value.text, presence::always);
}

void fields_of(auto& on, some<not_primary> auto& value) {
  on.sentence("text", value.text, presence::always);
}

}  // namespace ddprun::protocol
