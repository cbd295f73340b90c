#include "launcher/evidence/flight_record.hpp"

#include "launcher/base/json_nesting.hpp"
#include "launcher/base/text.hpp"
#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/base/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

using nlohmann::json;

constexpr std::size_t call_name_bytes_max = 48;
constexpr std::size_t tensors_told_max = 2;
constexpr std::size_t dimensions_told_max = 6;
constexpr std::size_t ended_told_max = 8;
// PyTorch's name of a group to which the script has given none.
constexpr std::string_view no_label = "undefined";

const json* member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::string short_text(const json* value) {
  if (value == nullptr || !value->is_string()) return {};
  const std::string text = in_one_line(to_valid_utf8(value->get<std::string>()));
  return std::string(first_of(text, call_name_bytes_max));
}

std::uint64_t number(const json* value) {
  if (value != nullptr && value->is_number_unsigned()) return value->get<std::uint64_t>();
  if (value == nullptr || !value->is_string()) return 0;
  // "-1": there was none.
  return whole_number<std::uint64_t>(value->get_ref<const std::string&>()).value_or(0);
}

bool is_true(const json* value) {
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

// As scripts write it.
std::string type_name(const std::string& given) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> names = {
      {{"Float", "float32"},
       {"Double", "float64"},
       {"Half", "float16"},
       {"BFloat16", "bfloat16"},
       {"Long", "int64"},
       {"Int", "int32"},
       {"Short", "int16"},
       {"Char", "int8"},
       {"Byte", "uint8"},
       {"Bool", "bool"}}};
  for (const auto& [torch, script] : names) {
    if (given == torch) return std::string(script);
  }
  return given;
}

struct shape {
  std::string text;  // "[7, 3]"
  std::uint64_t elements = 1;
};

shape shape_of(const json& sizes) {
  shape found;
  if (!sizes.is_array()) return {"", 0};
  std::size_t count = 0;
  for (const json& size : sizes) {
    found.elements *= number(&size);
    if (++count <= dimensions_told_max)
      found.text += (count == 1 ? "" : ", ") + std::to_string(number(&size));
  }
  found.text = "[" + found.text + (count > dimensions_told_max ? ", ...]" : "]");
  return found;
}

void take_tensors(const json& call, collective& to) {
  const json* const sizes = member(call, "input_sizes");
  const json* const types = member(call, "input_dtypes");
  if (sizes == nullptr || !sizes->is_array() || types == nullptr || !types->is_array()) return;
  for (std::size_t index = 0; index < sizes->size() && index < types->size(); ++index) {
    const shape one = shape_of((*sizes)[index]);
    const std::string type = type_name(short_text(&(*types)[index]));
    to.elements += one.elements;
    if (index == 0) to.type = type;
    if (index < tensors_told_max) to.tensors += (index == 0 ? "" : ", ") + type + one.text;
    if (index == tensors_told_max) to.tensors += ", ...";
  }
}

struct recorded_call {
  collective what;
  std::uint64_t process_group = 0;  // its number in this process
  std::string label;
};

std::optional<recorded_call> call_in(const json& value) {
  recorded_call found;
  const json* const group = member(value, "process_group");
  if (group == nullptr || !group->is_array() || group->size() != 2) return std::nullopt;
  found.what.group = short_text(&(*group)[0]);
  found.label = short_text(&(*group)[1]);
  if (found.label == no_label) found.label.clear();
  const std::string name = short_text(member(value, "profiling_name"));
  found.what.name = name.substr(name.find(':') == std::string::npos ? 0 : name.find(':') + 1);
  if (found.what.group.empty() || found.what.name.empty()) return std::nullopt;
  found.process_group = number(member(value, "pg_id"));
  found.what.is_point_to_point = is_true(member(value, "is_p2p"));
  const char* const counter = found.what.is_point_to_point ? "p2p_seq_id" : "collective_seq_id";
  found.what.sequence = number(member(value, counter));
  const json* const retired = member(value, "retired");
  found.what.is_pending =
      retired != nullptr && !is_true(retired) && short_text(member(value, "state")) != "completed";
  const std::uint64_t called = number(member(value, "time_created_ns"));
  found.what.called_ns = static_cast<std::int64_t>(std::min<std::uint64_t>(called, INT64_MAX));
  return found;
}

std::string line_of(const flight_record& record, const collective& one) {
  std::string line = one.name;
  line += " " + number_of(record, one);
  if (!one.tensors.empty()) line += " of " + one.tensors;
  return line;
}

}  // namespace

std::optional<flight_record> flight_record_of(std::string_view text) {
  const json read = json::parse(text, not_too_nested, false);
  const json* const entries = member(read, "entries");
  const json* const status = member(read, "pg_status");
  if (status == nullptr || !status->is_object()) return std::nullopt;
  flight_record found;
  // Of several groups of one name the last one counts: the others were destroyed.
  std::map<std::string, std::uint64_t> numbers = {{std::string(default_group), 0}};
  std::vector<std::pair<recorded_call, const json*>> calls;
  const json none = json::array();
  for (const json& each : entries != nullptr && entries->is_array() ? *entries : none) {
    auto one = call_in(each);
    if (!one || (numbers.size() >= groups_max && !numbers.contains(one->what.group))) continue;
    auto& last = numbers[one->what.group];
    last = std::max(last, one->process_group);
    if (!one->label.empty() && one->what.group != default_group)
      found.groups[one->what.group].label = one->label;
    calls.emplace_back(std::move(*one), &each);
  }
  for (const auto& [group, own] : numbers) {
    const json* const last = member(*status, std::to_string(own).c_str());
    if (last == nullptr) continue;
    found.groups[group].enqueued = number(member(*last, "last_enqueued_collective"));
    found.groups[group].completed = number(member(*last, "last_completed_collective"));
  }
  std::erase_if(calls, [&](const auto& call) {
    return call.first.process_group != numbers[call.first.what.group];
  });
  // All that has not ended is told, if there is room.
  std::size_t left_out = calls.size() > recent_max ? calls.size() - recent_max : 0;
  for (auto& [call, source] : calls) {
    if (left_out > 0 && !call.what.is_pending) {
      --left_out;
      continue;
    }
    if (found.recent.size() == recent_max) break;
    take_tensors(*source, call.what);
    found.recent.push_back(std::move(call.what));
  }
  return found;
}

bool is_waited_in(const collective& one) {
  return one.is_pending && !one.is_point_to_point;
}

const collective* pending_collective(const flight_record& record) {
  const auto found = std::find_if(record.recent.begin(), record.recent.end(), is_waited_in);
  return found == record.recent.end() ? nullptr : &*found;
}

std::string number_of(const flight_record& record, const collective& one) {
  std::string text = "#" + std::to_string(one.sequence);
  if (one.group == default_group) return text;
  const auto group = record.groups.find(one.group);
  const bool has_label = group != record.groups.end() && !group->second.label.empty();
  return text + " of group " + (has_label ? group->second.label : one.group);
}

std::string text_of(const flight_record& record, std::int64_t now_ns) {
  std::string text;
  for (const auto& [name, group] : record.groups) {
    text += "process group " + name + (group.label.empty() ? "" : " (" + group.label + ")") +
            ": the last collective called is #" + std::to_string(group.enqueued) +
            ", the last that has ended #" + std::to_string(group.completed) + "\n";
  }
  std::vector<std::string> ended;
  for (const collective& one : record.recent) {
    if (!one.is_pending) {
      ended.push_back("ended: " + line_of(record, one) + "\n");
      continue;
    }
    text += "has not ended: " + line_of(record, one);
    if (one.called_ns > 0 && one.called_ns <= now_ns)
      text += ", called " + to_text(std::chrono::nanoseconds(now_ns - one.called_ns)) + " ago";
    text += '\n';
  }
  const std::size_t left_out = ended.size() - std::min(ended.size(), ended_told_max);
  for (std::size_t index = left_out; index < ended.size(); ++index)
    text += ended[index];
  return text;
}

}  // namespace ddprun::launcher::evidence
