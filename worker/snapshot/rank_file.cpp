#include "worker/snapshot/rank_file.hpp"

#include "worker/snapshot/checksum_thread.hpp"
#include "worker/snapshot/tensor_region.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace ddprun::worker {
namespace {

constexpr std::string_view own_prefix = "rank.";
constexpr std::string_view format_key = "format";
constexpr std::string_view format_text = "pt";
const std::string pieces_key = "__pieces__";
constexpr std::size_t cancel_bytes = std::size_t{16} << 20;

bool is_own(std::string_view name) {
  return name.starts_with(own_prefix);
}

// Writes pieces to a file, and computes their checksum.
class summed_output {
 public:
  summed_output(output_file& file, const std::function<bool()>& is_cancelled)
      : file_(file), is_cancelled_(is_cancelled) {}

  error_code write(std::string_view bytes) {
    sum_.add(bytes);
    bytes_ += bytes.size();
    for (std::size_t at = 0; at < bytes.size(); at += cancel_bytes) {
      if (is_cancelled_()) return errc::timed_out;
      if (auto error = file_.write(bytes.substr(at, cancel_bytes))) return error;
    }
    return {};
  }
  error_code write(const tensor_view& tensor, std::string& buffer) {
    if (!tensor.copy) return write(tensor.bytes);
    sum_.wait();  // the buffer's last content is still being added up
    try {
      buffer.resize(bytes_of(tensor).value());
    } catch (const std::bad_alloc&) {
      return system_error(ENOMEM);
    }
    tensor.copy(buffer.data());
    return write(buffer);
  }
  file_record record() { return {bytes_, sum_.value()}; }

 private:
  output_file& file_;
  const std::function<bool()>& is_cancelled_;
  checksum_thread sum_;
  std::uint64_t bytes_ = 0;
};

result<file_record> write_all(output_file& file, const rank_file_layout& layout,
                              const std::function<bool()>& is_cancelled) {
  std::string buffer;
  summed_output output(file, is_cancelled);
  if (auto error = output.write(layout.header.bytes)) return error;
  for (const std::size_t index : layout.header.order) {
    if (auto error = output.write(layout.tensors[index], buffer)) return error;
  }
  if (auto error = file.finish()) return error;
  return output.record();
}

void add_to(snapshot_part& part, const text_map& values, bool own) {
  for (const auto& [name, value] : values) {
    if ((name == format_key && value == format_text) || name == pieces_key) continue;
    if (is_own(name) == own) part.values[own ? name.substr(own_prefix.size()) : name] = value;
  }
}

bool is_piece(const tensor_view& tensor) {
  return is_inside({tensor.piece_of->offset, tensor.shape}, tensor.piece_of->shape);
}

// Restores the regions of a rank's pieces from the file's metadata.
error_code place_pieces(snapshot_part& own, const std::string& text, std::string& problem) {
  const auto places = nlohmann::json::parse(text, nullptr, false);
  try {
    for (tensor_view& tensor : own.tensors) {
      if (!places.contains(tensor.name)) continue;
      const auto& place = places.at(tensor.name);
      tensor.piece_of = {place.at("shape").get<std::vector<std::uint64_t>>(),
                         place.at("offset").get<std::vector<std::uint64_t>>()};
      if (is_piece(tensor)) continue;
      problem = "tensor " + to_text(tensor) + " does not fit into the whole that it names";
      return errc::damaged;
    }
  } catch (const nlohmann::json::exception&) {
    problem = "its " + pieces_key + " cannot be read";
    return errc::damaged;
  }
  return {};
}

}  // namespace

const tensor_view* snapshot_part::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const tensor_view& each) { return each.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::uint64_t snapshot_part::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& tensor : tensors)
    sum += bytes_of(tensor).value_or(0);
  return sum;
}

result<rank_file_layout> lay_out(snapshot_part replicated, const snapshot_part& own,
                                 std::string& problem) {
  rank_file_layout layout;
  text_map values = std::move(replicated.values);
  layout.tensors = std::move(replicated.tensors);
  const auto refuse = [&](std::string text) {
    problem = std::move(text);
    return make_error_code(errc::invalid_argument);
  };
  const auto reserved = [&](const std::string& name) {
    return refuse("'" + name +
                  "' begins with 'rank.', which is reserved for each rank's own state");
  };
  for (const auto& [name, value] : values) {
    if (is_own(name)) return reserved(name);
    if (name == format_key || name == pieces_key) {
      return refuse("a value is named '" + name + "', which is reserved");
    }
  }
  for (const auto& tensor : layout.tensors) {
    if (is_own(tensor.name)) return reserved(tensor.name);
    if (tensor.piece_of) {
      return refuse("'" + tensor.name + "' is a piece, which cannot be alike on all ranks");
    }
  }
  values[std::string(format_key)] = format_text;
  for (const auto& [name, value] : own.values)
    values[std::string(own_prefix) + name] = value;
  auto pieces = nlohmann::json::object();
  for (tensor_view tensor : own.tensors) {
    if (tensor.piece_of) {
      if (!is_piece(tensor)) {
        return refuse("'" + tensor.name + "' does not fit into the whole that it names");
      }
      pieces[tensor.name] = {{"shape", tensor.piece_of->shape},
                             {"offset", tensor.piece_of->offset}};
    }
    tensor.name.insert(0, own_prefix);
    layout.tensors.push_back(std::move(tensor));
  }
  layout.has_pieces = !pieces.empty();
  if (layout.has_pieces) {
    values[pieces_key] = pieces.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  auto header = make_safetensors_header(layout.tensors, values, problem);
  if (!header) return header.error();
  layout.header = std::move(*header);
  return layout;
}

result<file_record> write_rank_file(file_system& files, const std::string& path,
                                    const rank_file_layout& layout,
                                    const std::function<bool()>& is_cancelled) {
  (void)files.remove(path);
  auto file = files.create(path);
  if (!file) return file.error();
  auto record = write_all(**file, layout, is_cancelled);
  if (!record) {
    file->reset();
    (void)files.remove(path);
  }
  return record;
}

result<rank_file> split_by_owner(safetensors_content content, std::string& problem) {
  rank_file parts;
  add_to(parts.replicated, content.metadata, false);
  add_to(parts.own, content.metadata, true);
  for (tensor_view& tensor : content.tensors) {
    const bool own = is_own(tensor.name);
    if (own) tensor.name.erase(0, own_prefix.size());
    (own ? parts.own : parts.replicated).tensors.push_back(std::move(tensor));
  }
  const auto pieces = content.metadata.find(pieces_key);
  if (pieces != content.metadata.end()) {
    if (auto error = place_pieces(parts.own, pieces->second, problem)) return error;
  }
  return parts;
}

result<rank_file> read_rank_file(file_system& files, const std::string& path,
                                 const file_record& record, bool is_checked, std::string& problem) {
  checksum sum;
  error_code error;
  if (is_checked) error = files.scan(path, [&](std::string_view piece) { sum.add(piece); });
  std::shared_ptr<const mapped_file> mapped;
  if (!error) {
    auto mapping = files.map(path);
    error = mapping ? error_code() : mapping.error();
    if (mapping) mapped = std::move(*mapping);
  }
  if (error) {
    const bool is_no_file = error == errc::not_found;
    problem = is_no_file ? "it is not a file" : error.message();
    const bool is_gone = is_no_file || is_system_error(error, ENOENT);
    return is_gone ? make_error_code(errc::damaged) : error;
  }
  const std::string_view bytes = mapped->bytes();
  if (bytes.size() != record.bytes) {
    problem = "it has " + std::to_string(bytes.size()) + " bytes instead of " +
              std::to_string(record.bytes);
    return errc::damaged;
  }
  if (is_checked && sum.value() != record.xxh3) {
    problem = "its bytes do not match their checksum";
    return errc::damaged;
  }
  auto content = read_safetensors(bytes, problem);
  if (!content) return content.error();
  auto parts = split_by_owner(std::move(*content), problem);
  if (parts) parts->mapping = std::move(mapped);
  return parts;
}

}  // namespace ddprun::worker
