#include "worker/snapshot/safetensors.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace ddprun::worker {
namespace {

using json = nlohmann::json;

constexpr std::string_view metadata_name = "__metadata__";
constexpr std::size_t length_bytes = 8;
constexpr std::size_t data_alignment = 64;  // a cache line, and larger than any element

std::uint64_t number_at(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t byte = 0; byte < length_bytes; ++byte)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[byte])} << (8 * byte);
  return value;
}

std::string bytes_of_number(std::uint64_t value) {
  std::string bytes(length_bytes, '\0');
  for (std::size_t byte = 0; byte < length_bytes; ++byte)
    bytes[byte] = static_cast<char>((value >> (8 * byte)) & 0xff);
  return bytes;
}

// Finds a repeated name in a JSON object, of which the library silently keeps only the last value.
class without_doubles {
 public:
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    const auto level = static_cast<std::size_t>(depth);
    if (event == json::parse_event_t::object_start) {
      names_.resize(level + 1);
    } else if (event == json::parse_event_t::key) {
      names_.resize(level);
      if (!names_.back().insert(parsed.get<std::string>()).second) double_ = parsed;
    }
    return true;
  }
  const std::string& doubled() const { return double_; }

 private:
  std::vector<std::set<std::string>> names_;
  std::string double_;
};

struct reader {
  std::string_view file;
  bool is_header_alone;
  std::string& problem;
  safetensors_content content;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> offsets;  // of content.tensors

  error_code damaged(std::string text) {
    problem = std::move(text);
    return errc::damaged;
  }

  error_code read_metadata(const json& texts) {
    if (!texts.is_object()) return damaged("its __metadata__ is not an object");
    for (const auto& [key, value] : texts.items()) {
      if (!value.is_string()) return damaged("its __metadata__ '" + key + "' is not a text");
      content.metadata[key] = value.get<std::string>();
    }
    return {};
  }

  error_code read_tensor(const std::string& name, const json& entry) {
    const auto type = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string()
                          ? parse_element_type(entry["dtype"].get_ref<const std::string&>())
                          : std::nullopt;
    if (!type) return damaged("tensor '" + name + "' has no supported dtype");
    const auto numbers = [&](const char* key) {
      return entry.contains(key) && entry[key].is_array() &&
             std::all_of(entry[key].begin(), entry[key].end(),
                         [](const json& each) { return each.is_number_unsigned(); });
    };
    if (!numbers("shape") || !numbers("data_offsets") || entry["data_offsets"].size() != 2) {
      return damaged("tensor '" + name + "' has no shape or no data_offsets");
    }
    tensor_view tensor;
    tensor.name = name;
    tensor.type = *type;
    tensor.shape = entry["shape"].get<std::vector<std::uint64_t>>();
    const auto begin = entry["data_offsets"][0].get<std::uint64_t>();
    const auto end = entry["data_offsets"][1].get<std::uint64_t>();
    if (begin > end || bytes_of(tensor) != end - begin) {
      return damaged("tensor " + to_text(tensor) + " has " + std::to_string(end - begin) +
                     " bytes");
    }
    content.tensors.push_back(std::move(tensor));
    offsets.emplace_back(begin, end);
    return {};
  }

  // Sorts the tensors by offset, and checks that they fill the file without gaps.
  error_code place(std::string_view data) {
    std::vector<std::size_t> order(content.tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return offsets[a] < offsets[b]; });
    std::vector<tensor_view> sorted;
    std::uint64_t at = 0;
    for (const std::size_t index : order) {
      const auto [begin, end] = offsets[index];
      if (begin != at) return damaged("tensor '" + content.tensors[index].name + "' is misplaced");
      if (!is_header_alone && end > data.size()) return damaged("it is cut short");
      if (!is_header_alone) content.tensors[index].bytes = data.substr(begin, end - begin);
      sorted.push_back(std::move(content.tensors[index]));
      at = end;
    }
    if (!is_header_alone && at != data.size()) return damaged("it is longer than its header says");
    content.tensors = std::move(sorted);
    return {};
  }

  error_code read() {
    if (file.size() < length_bytes) return damaged("it is cut short");
    const std::uint64_t header_bytes = number_at(file);
    if (header_bytes > safetensors_header_bytes_max) return damaged("it is not a safetensors file");
    if (header_bytes > file.size() - length_bytes) return damaged("it is cut short");
    const std::string_view text = file.substr(length_bytes, header_bytes);
    if (!text.starts_with('{')) return damaged("it is not a safetensors file");
    without_doubles names;
    const json header = json::parse(text.begin(), text.end(), std::ref(names), false);
    if (header.is_discarded()) return damaged("its header is not JSON");
    if (!names.doubled().empty()) return damaged("'" + names.doubled() + "' occurs in it twice");
    for (const auto& [name, entry] : header.items()) {
      const bool is_metadata = name == metadata_name;
      if (auto error = is_metadata ? read_metadata(entry) : read_tensor(name, entry)) return error;
    }
    return place(file.substr(length_bytes + header_bytes));
  }
};

}  // namespace

result<safetensors_header> make_safetensors_header(std::span<const tensor_view> tensors,
                                                   const text_map& metadata, std::string& problem) {
  const auto refuse = [&](errc value, std::string text) {
    problem = std::move(text);
    return make_error_code(value);
  };
  safetensors_header made;
  made.order.resize(tensors.size());
  std::iota(made.order.begin(), made.order.end(), std::size_t{0});
  std::stable_sort(made.order.begin(), made.order.end(), [&](std::size_t a, std::size_t b) {
    return bytes_of(tensors[a].type) > bytes_of(tensors[b].type);
  });
  json header = json::object();
  if (!metadata.empty()) header[std::string(metadata_name)] = metadata;
  for (const std::size_t index : made.order) {
    const tensor_view& tensor = tensors[index];
    if (tensor.name == metadata_name || header.contains(tensor.name)) {
      return refuse(errc::invalid_argument, "two tensors have the name '" + tensor.name + "'");
    }
    const auto bytes = bytes_of(tensor);
    if (!bytes || (!tensor.copy && tensor.bytes.size() != *bytes)) {
      return refuse(errc::invalid_argument, "tensor " + to_text(tensor) + " has " +
                                                std::to_string(tensor.bytes.size()) + " bytes");
    }
    const std::uint64_t begin = made.data_bytes;
    if (__builtin_add_overflow(begin, *bytes, &made.data_bytes)) {
      return refuse(errc::limit_reached, "the tensors are longer than 64 bits can count");
    }
    header[tensor.name] = {{"dtype", to_text(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, made.data_bytes}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    return refuse(errc::invalid_argument, "a name or a text in it is not UTF-8");
  }
  const std::size_t before_data = length_bytes + text.size();
  text.append((data_alignment - before_data % data_alignment) % data_alignment, ' ');
  if (text.size() > safetensors_header_bytes_max) {
    return refuse(errc::limit_reached, "the names and shapes take " + std::to_string(text.size()) +
                                           " bytes, the limit is " +
                                           std::to_string(safetensors_header_bytes_max));
  }
  made.bytes = bytes_of_number(text.size()) + text;
  return made;
}

const tensor_view* safetensors_content::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const tensor_view& each) { return each.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

result<safetensors_content> read_safetensors(std::string_view file, std::string& problem) {
  reader reading{file, false, problem, {}, {}};
  if (auto error = reading.read()) return error;
  return std::move(reading.content);
}

std::uint64_t safetensors_header_bytes(std::string_view file) {
  if (file.size() < length_bytes) return 0;
  return length_bytes + std::min(number_at(file), safetensors_header_bytes_max);
}

result<safetensors_content> read_safetensors_header(std::string_view header, std::string& problem) {
  reader reading{header, true, problem, {}, {}};
  if (auto error = reading.read()) return error;
  return std::move(reading.content);
}

}  // namespace ddprun::worker
