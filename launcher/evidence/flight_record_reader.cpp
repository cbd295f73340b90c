// Reads the text of a flight record in one pass, because it may be long, and several ranks answer
// at once.
#include "launcher/base/text.hpp"
#include "launcher/evidence/flight_record.hpp"
#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

using nlohmann::json;

constexpr std::size_t call_name_bytes_max = 48;
constexpr std::size_t tensors_told_max = 2;
constexpr std::size_t dimensions_told_max = 6;
// PyTorch's name of a group to which the script has given none.
constexpr std::string_view no_label = "undefined";
// Its name of the group that init_process_group() makes; the short one where it has no long one.
constexpr std::string_view default_label = "default_pg";
constexpr std::string_view default_name = "0";

std::string short_text(const std::string& text) {
  const std::string line = in_one_line(to_valid_utf8(text));
  return std::string(first_of(line, call_name_bytes_max));
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

// A value that has no parts.
struct scalar {
  const std::string* text = nullptr;
  std::uint64_t number = 0;  // zero for those that are negative, or have a fraction
  bool is_true = false;
};

std::string text_in(const scalar& value) {
  return value.text == nullptr ? std::string() : short_text(*value.text);
}

std::uint64_t whole_value(const scalar& value) {
  if (value.text == nullptr) return value.number;
  return whole_number<std::uint64_t>(*value.text).value_or(0);  // "-1": there was none
}

struct tensor_shape {
  std::string text;  // "7, 3"
  std::size_t dimensions = 0;
  std::uint64_t elements = 1;
};

void add_dimension(tensor_shape& shape, std::uint64_t size) {
  shape.elements *= size;
  if (++shape.dimensions > dimensions_told_max) return;
  shape.text += (shape.dimensions == 1 ? "" : ", ") + std::to_string(size);
}

// Of one call. Their types and their sizes are two lists; of long ones only the beginning is kept.
struct tensor_list {
  std::vector<std::string> types;
  std::vector<std::string> sizes;  // "[7, 3]"
  std::size_t type_count = 0;
  std::size_t size_count = 0;
  std::uint64_t elements = 0;  // in all of them
};

void add_type(tensor_list& tensors, const std::string& type) {
  if (++tensors.type_count <= tensors_told_max) tensors.types.push_back(type_name(type));
}

void add_shape(tensor_list& tensors, const tensor_shape& shape) {
  tensors.elements += shape.elements;
  if (++tensors.size_count > tensors_told_max) return;
  const bool is_cut = shape.dimensions > dimensions_told_max;
  tensors.sizes.push_back("[" + shape.text + (is_cut ? ", ...]" : "]"));
}

void tell_tensors(const tensor_list& tensors, collective& to) {
  const std::size_t count = std::min(tensors.type_count, tensors.size_count);
  if (count == 0) return;
  to.elements = tensors.elements;
  to.type = tensors.types.front();
  for (std::size_t index = 0; index < std::min(count, tensors_told_max); ++index)
    to.tensors += (index == 0 ? "" : ", ") + tensors.types[index] + tensors.sizes[index];
  if (count > tensors_told_max) to.tensors += ", ...";
}

struct recorded_call {
  collective what;  // without its tensors
  std::string label;
  std::size_t group_parts = 0;  // of its name and its label, so many have been read
  std::uint64_t own_group = 0;  // number of its group in this process
  std::uint64_t collective_number = 0;
  std::uint64_t point_to_point_number = 0;
  bool tells_end = false;
  bool is_retired = false;
  bool is_completed = false;
  tensor_list tensors;
};

// Takes values in the order of the text, as nlohmann's parser finds them. What is in no place that
// it knows it passes over, however deep that is.
class record_reader {
 public:
  bool null() { return take({}); }
  bool boolean(bool value) { return take({nullptr, 0, value}); }
  bool number_integer(json::number_integer_t) { return take({}); }
  bool number_unsigned(json::number_unsigned_t value) { return take({nullptr, value, false}); }
  bool number_float(json::number_float_t, const std::string&) { return take({}); }
  bool string(std::string& value) { return take({&value, 0, false}); }
  bool binary(json::binary_t&) { return take({}); }
  bool start_object(std::size_t) { return open(true); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(false); }
  bool end_array() { return close(); }
  bool key(const std::string& name) {
    if (passed_over_ == 0) key_ = name;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) { return false; }

  // Of all that was read; none: it is no record.
  std::optional<flight_record> result();

 private:
  enum class place { outside, record, calls, call, group, sizes, shape, types, statuses, status };
  struct progress {
    std::uint64_t enqueued = 0;
    std::uint64_t completed = 0;
  };
  struct kept_call {
    collective what;
    tensor_list tensors;
  };

  place place_inside(bool is_object) const;
  place place_around() const;
  bool open(bool is_object);
  bool close();
  bool take(const scalar& value);
  void take_field(const scalar& value);
  void end_call();
  group_progress* group_of_call();
  void keep_call();

  place at_ = place::outside;
  std::size_t passed_over_ = 0;  // so deep in something that has no place
  std::string key_;
  bool has_statuses_ = false;
  recorded_call call_;
  tensor_shape shape_;
  std::uint64_t status_of_ = 0;                   // number of a group
  std::map<std::uint64_t, progress> statuses_;    // by that
  std::map<std::string, group_progress> groups_;  // by name, as their calls have it
  std::deque<kept_call> kept_;
};

record_reader::place record_reader::place_inside(bool is_object) const {
  switch (at_) {
    case place::outside:
      return is_object ? place::record : place::outside;
    case place::record:
      if (is_object) return key_ == "pg_status" ? place::statuses : place::outside;
      return key_ == "entries" ? place::calls : place::outside;
    case place::calls:
      return is_object ? place::call : place::outside;
    case place::call:
      if (is_object) return place::outside;
      if (key_ == "process_group") return place::group;
      if (key_ == "input_sizes") return place::sizes;
      return key_ == "input_dtypes" ? place::types : place::outside;
    case place::sizes:
      return is_object ? place::outside : place::shape;
    case place::statuses:
      return is_object ? place::status : place::outside;
    default:
      return place::outside;
  }
}

record_reader::place record_reader::place_around() const {
  switch (at_) {
    case place::calls:
    case place::statuses:
      return place::record;
    case place::call:
      return place::calls;
    case place::group:
    case place::sizes:
    case place::types:
      return place::call;
    case place::shape:
      return place::sizes;
    case place::status:
      return place::statuses;
    default:
      return place::outside;
  }
}

bool record_reader::open(bool is_object) {
  const place next = passed_over_ > 0 ? place::outside : place_inside(is_object);
  if (next == place::outside) {
    if (passed_over_ == 0) take({});  // in a list it counts as one
    ++passed_over_;
    return true;
  }
  at_ = next;
  if (next == place::call) call_ = {};
  if (next == place::shape) shape_ = {};
  if (next == place::statuses) has_statuses_ = true;
  if (next == place::status) status_of_ = whole_value({&key_, 0, false});
  return true;
}

bool record_reader::close() {
  if (passed_over_ > 0) {
    --passed_over_;
    return true;
  }
  if (at_ == place::shape) add_shape(call_.tensors, shape_);
  if (at_ == place::call) end_call();
  at_ = place_around();
  return true;
}

bool record_reader::take(const scalar& value) {
  if (passed_over_ > 0) return true;
  if (at_ == place::call) {
    take_field(value);
  } else if (at_ == place::group) {
    if (call_.group_parts == 0) call_.what.group = text_in(value);
    if (call_.group_parts == 1) call_.label = text_in(value);
    ++call_.group_parts;
  } else if (at_ == place::sizes) {
    add_shape(call_.tensors, {"", 0, 0});
  } else if (at_ == place::shape) {
    add_dimension(shape_, whole_value(value));
  } else if (at_ == place::types) {
    add_type(call_.tensors, text_in(value));
  } else if (at_ == place::status) {
    if (key_ == "last_enqueued_collective") statuses_[status_of_].enqueued = whole_value(value);
    if (key_ == "last_completed_collective") statuses_[status_of_].completed = whole_value(value);
  }
  return true;
}

void record_reader::take_field(const scalar& value) {
  collective& what = call_.what;
  if (key_ == "profiling_name") {
    const std::string name = text_in(value);
    what.name = name.substr(name.find(':') == std::string::npos ? 0 : name.find(':') + 1);
  } else if (key_ == "pg_id") {
    call_.own_group = whole_value(value);
  } else if (key_ == "is_p2p") {
    what.is_point_to_point = value.is_true;
  } else if (key_ == "collective_seq_id") {
    call_.collective_number = whole_value(value);
  } else if (key_ == "p2p_seq_id") {
    call_.point_to_point_number = whole_value(value);
  } else if (key_ == "retired") {
    call_.tells_end = true;
    call_.is_retired = value.is_true;
  } else if (key_ == "state") {
    call_.is_completed = value.text != nullptr && *value.text == "completed";
  } else if (key_ == "time_created_ns") {
    what.called_ns =
        static_cast<std::int64_t>(std::min<std::uint64_t>(whole_value(value), INT64_MAX));
  }
}

void record_reader::end_call() {
  collective& what = call_.what;
  if (call_.group_parts != 2 || what.group.empty() || what.name.empty()) return;
  what.sequence = what.is_point_to_point ? call_.point_to_point_number : call_.collective_number;
  what.is_pending = call_.tells_end && !call_.is_retired && !call_.is_completed;
  group_progress* const group = group_of_call();
  if (group == nullptr) return;
  if (!what.is_point_to_point) {
    group->enqueued = std::max(group->enqueued, what.sequence);
    if (!what.is_pending) group->completed = std::max(group->completed, what.sequence);
  }
  keep_call();
}

// None: it is one that others of its name have followed, or there are too many.
group_progress* record_reader::group_of_call() {
  const std::string& name = call_.what.group;
  const auto found = groups_.find(name);
  if (found == groups_.end() && groups_.size() >= groups_max) return nullptr;
  group_progress& group = found == groups_.end() ? groups_[name] : found->second;
  if (found != groups_.end() && call_.own_group < group.own) return nullptr;
  const bool is_made_anew = found != groups_.end() && call_.own_group > group.own;
  if (is_made_anew) {
    std::erase_if(kept_, [&name](const kept_call& one) { return one.what.group == name; });
    group = {"", 0, 0, false, 0, group.earlier + 1};
  }
  // One that was connected to other ranks keeps its number; PyTorch 2.14 also keeps its old calls.
  const bool is_connected_anew =
      !call_.what.is_point_to_point && call_.what.sequence == 1 && group.enqueued > 1;
  if (is_connected_anew) {
    std::erase_if(kept_, [&name](const kept_call& one) { return one.what.group == name; });
    group = {"", 0, 0, false, 0, group.earlier};
  }
  group.own = call_.own_group;
  const bool has_label = !call_.label.empty() && call_.label != no_label;
  group.is_default = call_.label == default_label || (!has_label && name == default_name);
  group.label = has_label && !group.is_default ? call_.label : "";
  return &group;
}

// All that has not ended, if there is room, and the newest of the others.
void record_reader::keep_call() {
  kept_.push_back({std::move(call_.what), std::move(call_.tensors)});
  if (kept_.size() <= recent_max) return;
  const auto ended = std::find_if(kept_.begin(), kept_.end(),
                                  [](const kept_call& one) { return !one.what.is_pending; });
  kept_.erase(ended == kept_.end() ? kept_.end() - 1 : ended);
}

std::optional<flight_record> record_reader::result() {
  if (!has_statuses_) return std::nullopt;
  // Recorders of some versions have the groups of several backends, each with numbers of its own:
  // a number that two groups have tells of neither.
  std::map<std::uint64_t, std::size_t> owners;
  for (const auto& [name, group] : groups_)
    ++owners[group.own];
  flight_record found;
  for (auto& [name, group] : groups_) {
    const auto status = statuses_.find(group.own);
    if (status != statuses_.end() && owners[group.own] == 1) {
      group.enqueued = status->second.enqueued;
      group.completed = status->second.completed;
    }
  }
  found.groups = std::move(groups_);
  for (kept_call& one : kept_) {
    tell_tensors(one.tensors, one.what);
    found.recent.push_back(std::move(one.what));
  }
  return found;
}

}  // namespace

std::optional<flight_record> flight_record_of(std::string_view text) {
  record_reader reader;
  if (!json::sax_parse(text, &reader)) return std::nullopt;
  return reader.result();
}

}  // namespace ddprun::launcher::evidence
