#include "launcher/report/saved_log.hpp"

#include "launcher/report/failure_text.hpp"
#include "launcher/report/output_lines.hpp"
#include "rendezvous/base/terminal_escapes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr std::size_t sources_max = 4096;
constexpr std::size_t tail_max = 16 * 1024;
constexpr std::size_t line_max = 2048;  // more of a line adds nothing
constexpr std::size_t others_max = 8;   // that are named
constexpr std::size_t rounds_max = 20;  // that are named
constexpr char name_end = '\n';         // of a label, if its key has a rank too
constexpr std::string_view box_endings[] = {"; the root cause:",
                                            "; the first cause:"};  // of older versions

bool begins_box_of_cause(std::string_view line) {
  return std::any_of(std::begin(box_endings), std::end(box_endings),
                     [&](std::string_view ending) { return line.ends_with(ending); });
}

// Takes "round 1 failed 3 s after its start" from the first line of a box.
std::string what_of_box(const std::string& headline) {
  return headline.substr(0, headline.rfind("; the "));
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

struct labelled {
  std::string who;  // empty: unknown
  std::string_view line;
};

// Splits off "[node:3] ", "[default3]:" or "3: ".
labelled split_label(std::string_view line) {
  if (line.starts_with('[')) {
    const std::size_t end = line.substr(0, 300).find(']');
    if (end == std::string_view::npos) return {{}, line};
    const std::string_view inside = line.substr(1, end - 1);
    const std::size_t colon = inside.rfind(':');
    if (line.substr(end).starts_with("] ") && colon != std::string_view::npos && colon > 0 &&
        is_number(inside.substr(colon + 1))) {
      return {"rank " + std::string(inside.substr(colon + 1)) + " on " +
                  std::string(inside.substr(0, colon)),
              line.substr(end + 2)};
    }
    const std::size_t digits = inside.find_last_not_of("0123456789") + 1;
    const bool is_torchruns = line.substr(end).starts_with("]:") && digits > 0 &&
                              digits < inside.size() && inside.substr(0, digits) != "rank" &&
                              inside.find(' ') == std::string_view::npos;
    if (is_torchruns) return {std::string(inside), line.substr(end + 2)};
    return {{}, line};
  }
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t colon = line.find(": ", begin);
  if (colon != std::string_view::npos && is_number(line.substr(begin, colon - begin))) {
    return {"task " + std::string(line.substr(begin, colon - begin)), line.substr(colon + 2)};
  }
  return {{}, line};
}

// Removes "2026-11-25T16:10:03.412345678Z ", which `kubectl logs --timestamps` and `docker logs -t`
// put before each line.
std::string_view without_stamp(std::string_view line) {
  constexpr std::string_view form = "dddd-dd-ddTdd:dd:dd";
  if (line.size() <= form.size()) return line;
  for (std::size_t at = 0; at < form.size(); ++at) {
    if (form[at] == 'd' ? !is_digit(line[at]) : line[at] != form[at]) return line;
  }
  const std::size_t end = line.find(' ');
  if (end == std::string_view::npos) return line;
  const std::string_view zone = line.substr(form.size(), end - form.size());
  if (zone.find_first_not_of("0123456789.:+-Z") != std::string_view::npos) return line;
  return line.substr(end + 1);
}

// Splits off "[pod/job-0/train] ", which `kubectl logs --prefix` puts before that.
labelled split_pod(std::string_view line) {
  const std::size_t end = line.starts_with("[pod/") ? line.find("] ") : std::string_view::npos;
  if (end == std::string_view::npos) return {{}, line};
  return {std::string(line.substr(1, end - 1)), line.substr(end + 2)};
}

// Takes "3" from "[rank3]: ..."; empty: PyTorch has not named a rank.
std::string rank_of(std::string_view line) {
  constexpr std::string_view begin = "[rank";
  if (!line.starts_with(begin)) return {};
  const std::size_t end = line.find("]:");
  if (end == std::string_view::npos || !is_number(line.substr(begin.size(), end - begin.size()))) {
    return {};
  }
  return std::string(line.substr(begin.size(), end - begin.size()));
}

// The exceptions of torchrun and ddprun themselves only report those of others.
bool is_of_launcher(const std::string& error) {
  return error.find("ChildFailedError") != std::string::npos ||
         error.find("SignalException") != std::string::npos;
}

}  // namespace

struct saved_log::finding {
  std::string who;
  std::string rank;  // from PyTorch, or the launcher's number of a task
  std::uint64_t line = 0;
  std::string file;
  failure_text words;

  std::string place() const {
    return (file.empty() ? "line " : file + ", line ") + std::to_string(line);
  }

  std::vector<std::string> shown;

  // "rank 2 (line 7, a secondary failure)".
  std::string named() const {
    const std::string name = who.empty() ? "the rest" : who;
    return name + " (" + (name == file ? "line " + std::to_string(line) : place()) +
           (words.is_secondary ? ", a secondary failure)" : ")");
  }
};

void saved_log::begin_file(const std::string& name) {
  ++files_;
  file_ = name;
  line_ = 0;
  is_in_box_ = false;
  verdict_lines_ = 0;
}

void saved_log::add(std::string_view line) {
  ++lines_;
  ++line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  // The log may have been saved from a terminal.
  std::string plain;
  if (line.find('\x1b') != std::string_view::npos) line = plain = without_escapes(line);
  const auto [pod, said] = split_pod(line);
  auto [who, rest] = split_label(without_stamp(said));
  if (who.empty()) who = pod;
  const auto own = read_own_json_line(rest);
  if (own && take_box(*own)) return;
  rest = own ? std::string_view(own->message) : rest;
  rest = rest.substr(0, line_max);
  if (take_box(rest)) return;
  take_verdict(rest);
  const std::string rank = rank_of(rest);
  if (who.empty() && !rank.empty()) who = "rank " + rank;
  if (who.empty()) who = file_;
  // The files of two nodes may contain the same label.
  who = std::to_string(files_) + name_end + who;
  auto found = sources_.find(who);
  // torchrun's label counts within a node, and the file may contain several nodes.
  if (found != sources_.end() && !rank.empty() && !found->second.rank.empty() &&
      found->second.rank != rank) {
    who += name_end + rank;
    found = sources_.find(who);
  }
  if (found == sources_.end()) {
    if (sources_.size() >= sources_max) return;
    found = sources_.emplace(who, source()).first;
    found->second.file = file_;
  }
  if (!rank.empty()) found->second.rank = rank;
  take_line(found->second, rest);
}

void saved_log::take_line(source& of, std::string_view line) {
  of.tail += line;
  of.tail += '\n';
  if (of.tail.size() > 2 * tail_max) of.tail.erase(0, of.tail.find('\n', tail_max) + 1);
  if (line.ends_with("Traceback (most recent call last):")) of.head_at = line_;
  const signature* const known = find_signature(line);
  if (known == nullptr) return;
  const signature* const before = find_signature(of.known_line);
  const bool is_better = before == nullptr || (before->is_crash() && !known->is_crash()) ||
                         (before->is_secondary() && !known->is_secondary() && !known->is_crash());
  if (!is_better) return;
  of.known_line = line;
  of.known_at = line_;
}

bool saved_log::take_box(const own_json_line& line) {
  if (line.lines.empty() || !begins_box_of_cause(line.message)) return false;
  is_in_box_ = false;
  begin_box(line.message);
  for (const std::string& each : line.lines)
    box_.push_back("  " + each);
  return true;
}

bool saved_log::take_box(std::string_view line) {
  constexpr std::string_view border = "  | ";
  if (is_in_box_ && line.starts_with(border)) {
    box_.emplace_back("  " + std::string(line.substr(border.size())));
    return true;
  }
  is_in_box_ = line.starts_with("ddprun ") && begins_box_of_cause(line);
  if (!is_in_box_) return false;
  const std::size_t begin = line.find(": warning: ");
  begin_box(std::string(begin == std::string_view::npos ? line : line.substr(begin + 11)));
  return true;
}

// Starts a box. Boxes of the same round, printed by every node, count once.
void saved_log::begin_box(std::string headline) {
  if (box_.size() > 1) {
    const std::string before = what_of_box(box_[0]) + ":" + box_[1].substr(1);
    if (std::find(earlier_.begin(), earlier_.end(), before) == earlier_.end()) {
      earlier_.push_back(before);
    }
    if (earlier_.size() > rounds_max) earlier_.pop_front();
  }
  box_ = {std::move(headline)};
}

std::vector<std::string> saved_log::with_earlier_rounds() const {
  std::vector<std::string> lines = box_;
  for (const std::string& round : earlier_) {
    const bool is_this = box_.size() > 1 && round.starts_with(what_of_box(box_[0]) + ":");
    if (!is_this) lines.push_back("before that, " + round);
  }
  return lines;
}

// Reads what a launcher says. torchrun: "Root Cause (first observed failure):", then host, rank and
// exitcode, a line each. srun: "srun: error: node-b: task 3: Exited with exit code 1".
void saved_log::take_verdict(std::string_view line) {
  if (line.find("Root Cause (first observed failure):") != std::string_view::npos) {
    verdict_ = {"torchrun", {}, {}};
    verdict_lines_ = 6;
  } else if (verdict_lines_ > 0) {
    --verdict_lines_;
    for (const std::string_view name : {"host", "rank", "exitcode"}) {
      const std::size_t at = line.find_first_not_of(' ');
      if (at == std::string_view::npos || !line.substr(at).starts_with(name)) continue;
      const std::size_t colon = line.find(": ", at);
      if (colon == std::string_view::npos) continue;
      std::string_view value = line.substr(colon + 2);
      while (value.ends_with(' '))
        value.remove_suffix(1);
      verdict_.text +=
          (verdict_.text.empty() ? "" : " ") + std::string(name) + " " + std::string(value);
      if (name == "rank") verdict_.rank = value.substr(0, value.find(' '));
    }
  } else if (line.starts_with("srun: error: ") && verdict_.by.empty()) {
    verdict_ = {"srun", {}, std::string(line.substr(13))};
    constexpr std::string_view task = ": task ";
    const std::size_t at = verdict_.text.find(task);
    if (at == std::string::npos) return;
    const std::string number = verdict_.text.substr(at + task.size());
    verdict_.rank = number.substr(0, number.find(':'));
  }
}

std::vector<saved_log::finding> saved_log::findings() const {
  std::vector<finding> found;
  for (const auto& [key, from] : sources_) {
    const std::size_t begin = key.find(name_end) + 1;
    const std::string name = key.substr(begin, key.find(name_end, begin) - begin);
    finding one;
    one.who = name;
    if (!from.rank.empty() && name.find("rank " + from.rank) != 0) {
      one.who += (one.who.empty() ? "rank " : " (rank ") + from.rank + (name.empty() ? "" : ")");
    }
    std::string text = from.tail;
    one.words = read_log(text);
    one.line = from.head_at;
    one.file = from.file;
    constexpr std::string_view task = "task ";
    one.rank = from.rank.empty() && name.starts_with(task) ? name.substr(task.size()) : from.rank;
    // The launcher's own exception says nothing about this rank: use the best known line.
    if (one.words.error.empty() || is_of_launcher(one.words.error)) {
      if (from.known_at == 0) continue;
      text = from.known_line;
      one.words = read_log(text);
      one.line = from.known_at;
    }
    one.shown = failure_lines(one.words, text);
    found.push_back(std::move(one));
  }
  std::sort(found.begin(), found.end(), [](const finding& a, const finding& b) {
    return std::pair(a.words.is_secondary, a.line) < std::pair(b.words.is_secondary, b.line);
  });
  return found;
}

namespace {

// Names the findings from `first` on.
template <typename Finding>
std::string names_of(const std::vector<Finding>& found, std::size_t first) {
  std::string text;
  const std::size_t end = std::min(found.size(), first + others_max);
  for (std::size_t index = first; index < end; ++index)
    text += (index == first ? "" : ", ") + found[index].named();
  if (found.size() > end) text += " and " + std::to_string(found.size() - end) + " more";
  return text;
}

}  // namespace

// True if the rank that ended first left no output, as after SIGKILL.
bool saved_log::is_silent_first(const std::vector<finding>& found) const {
  if (verdict_.rank.empty() || found.empty() || !found.front().words.is_secondary) return false;
  return std::none_of(found.begin(), found.end(), [this](const finding& one) {
    return one.rank.empty() || one.rank == verdict_.rank;
  });
}

std::vector<std::string> saved_log::explain() const {
  if (!box_.empty()) return with_earlier_rounds();
  const std::vector<finding> found = findings();
  const bool is_silent = is_silent_first(found);
  std::vector<std::string> lines;
  if (is_silent) {
    lines.push_back("root cause, as " + verdict_.by + " saw it: " + verdict_.text);
    lines.emplace_back(
        "  this log has nothing from that rank; the errors of the others follow from its end");
    lines.push_back("  then failed: " + names_of(found, 0));
  } else if (!found.empty()) {
    const finding& first = found.front();
    const bool is_named = !first.who.empty() && first.who != first.file;
    lines.push_back((is_named ? "root cause: " + first.who : "root cause") + ", " + first.place() +
                    (first.words.error.empty() ? "" : ": " + first.words.error));
    for (const std::string& line : first.shown)
      lines.push_back("  " + line);
    if (first.words.is_secondary) {
      lines.emplace_back(
          "  every failure in this log is secondary: why the first rank ended "
          "is not in this log");
    }
    const std::string others = names_of(found, 1);
    if (!others.empty()) lines.push_back("  then failed: " + others);
  }
  if (is_silent) return lines;
  if (!verdict_.by.empty()) {
    lines.push_back((lines.empty() ? "" : "  ") + verdict_.by + " saw first: " + verdict_.text);
  }
  return lines;
}

}  // namespace ddprun::launcher
