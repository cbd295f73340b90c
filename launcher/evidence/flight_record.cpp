#include "launcher/evidence/flight_record.hpp"

#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::size_t ended_told_max = 8;

std::string line_of(const flight_record& record, const collective& one) {
  std::string line = one.name;
  line += " " + number_of(record, one);
  if (!one.tensors.empty()) line += " of " + one.tensors;
  return line;
}

}  // namespace

void add_record(flight_record& to, flight_record other, const std::string& prefix) {
  for (auto& [name, group] : other.groups)
    to.groups.emplace(prefix + name, std::move(group));
  for (collective& one : other.recent) {
    one.group = prefix + one.group;
    to.recent.push_back(std::move(one));
  }
  std::stable_sort(
      to.recent.begin(), to.recent.end(),
      [](const collective& one, const collective& next) { return one.called_ns < next.called_ns; });
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
  const auto group = record.groups.find(one.group);
  const bool is_known = group != record.groups.end();
  if (is_known && group->second.is_default) return text;
  const bool has_label = is_known && !group->second.label.empty();
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
