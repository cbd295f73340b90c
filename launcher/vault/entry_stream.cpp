#include "launcher/vault/entry_stream.hpp"

#include "launcher/base/text.hpp"
#include "launcher/base/write_all.hpp"
#include "launcher/vault/entry_origin.hpp"
#include "launcher/vault/next_word.hpp"
#include "launcher/vault/open_below.hpp"
#include "worker/snapshot/checksum.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr std::size_t received_files_max = 100'000;

outcome failed_stream(const error_code& error) {
  return {.problem = "the connection: " + error.message(), .is_lost = true};
}

outcome wrong_stream(const std::string& what) {
  return {.problem = "the other node has sent " + what, .is_damaged = true};
}

// Sends all bytes of a file, and fails if its size changes meanwhile.
outcome send_content(line_stream& to, int file, const sent_file& sent, worker::checksum& sum,
                     const pace& go_on) {
  std::string piece(piece_bytes, '\0');
  std::uint64_t left = sent.size;
  while (left > 0) {
    const std::size_t wanted = std::min<std::uint64_t>(piece.size(), left);
    const ssize_t got = ::read(file, piece.data(), wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {.problem = sent.path + " was written to meanwhile", .has_changed = true};
    const std::string_view bytes(piece.data(), static_cast<std::size_t>(got));
    sum.add(bytes);
    left -= bytes.size();
    if (const error_code error = to.send(bytes)) return failed_stream(error);
    if (!go_on(bytes.size())) return {.problem = "given up", .is_abandoned = true};
  }
  return {};
}

outcome send_file(line_stream& to, const sent_entry& one, const sent_file& sent,
                  const pace& go_on) {
  const auto file = open_below(one.folder.get(), one.below + sent.path, O_RDONLY);
  struct stat facts = {};
  // A worker may have overwritten the file since it was listed.
  const bool is_same = file && ::fstat(file->get(), &facts) == 0 && S_ISREG(facts.st_mode) &&
                       static_cast<std::uint64_t>(facts.st_size) == sent.size &&
                       modified_ns(facts) == sent.modified_ns;
  if (!is_same) return {.problem = sent.path + " was written to meanwhile", .has_changed = true};
  const error_code error = to.send("file " + std::to_string(sent.size) + " " +
                                   std::to_string(sent.modified_ns) + " " + sent.path + "\n");
  if (error) return failed_stream(error);
  worker::checksum sum;
  if (outcome done = send_content(to, file->get(), sent, sum, go_on); !done.is_done()) return done;
  // A write during the copy would mix two versions under one valid checksum.
  if (::fstat(file->get(), &facts) != 0 || modified_ns(facts) != sent.modified_ns)
    return {.problem = sent.path + " was written to meanwhile", .has_changed = true};
  // Only a file on disk has a known checksum; this copy is damaged, so another must be used.
  if (sent.checksum && *sent.checksum != sum.value())
    return {.problem = sent.path + " does not have its checksum", .is_damaged = true};
  if (const error_code lost = to.send("sum " + worker::checksum_text(sum.value()) + "\n"))
    return failed_stream(lost);
  return {};
}

// True for paths of that entry and of no other.
bool is_of_entry(std::string_view path, const std::string& name) {
  if (!is_safe_path(path) || !path.starts_with(name)) return false;
  const std::string_view rest = path.substr(name.size());
  return rest.empty() || rest.front() == '/' || rest == marker_name;
}

outcome receive_content(line_stream& from, int file, const sent_file& sent, worker::checksum& sum,
                        const pace& go_on) {
  std::uint64_t left = sent.size;
  while (left > 0) {
    const auto bytes = from.some(left);
    if (!bytes) return failed_stream(bytes.error());
    left -= bytes->size();
    sum.add(*bytes);
    if (write_all(file, *bytes) != 0)
      return {.problem = "cannot write " + sent.path + ": " + last_system_error().message()};
    if (!go_on(bytes->size())) return {.problem = "given up", .is_abandoned = true};
  }
  return {};
}

outcome receive_file(line_stream& from, const sent_file& sent, int folder, std::string_view below,
                     manifest& made, const pace& go_on) {
  const auto file = create_below(folder, std::string(below) + sent.path);
  if (!file) return {.problem = "cannot create " + sent.path + ": " + file.error().message()};
  worker::checksum sum;
  if (outcome done = receive_content(from, file->get(), sent, sum, go_on); !done.is_done())
    return done;
  const auto sum_line = from.line();
  if (!sum_line) return failed_stream(sum_line.error());
  if (*sum_line != "sum " + worker::checksum_text(sum.value()))
    return wrong_stream(sent.path + ", which does not have its checksum");
  // Whether an entry is complete depends on these times, so the copy keeps them.
  if (!set_modified(file->get(), sent.modified_ns))
    return {.problem = "cannot write " + sent.path + ": " + last_system_error().message()};
  made.files.push_back({sent.path, sent.size, sum.value(), sent.modified_ns});
  return {};
}

}  // namespace

error_code line_stream::send(std::string_view bytes, duration limit) {
  return stream_.send(bytes, limit);
}

result<std::string> line_stream::line(duration limit) {
  const worker::deadline until = limit;
  while (true) {
    const std::size_t end = received_.find('\n', used_);
    if (end != std::string::npos && end - used_ <= stream_line_bytes_max) {
      std::string found = received_.substr(used_, end - used_);
      used_ = end + 1;
      return found;
    }
    if (received_.size() - used_ > stream_line_bytes_max) return errc::message_too_long;
    received_.erase(0, std::exchange(used_, 0));
    if (const error_code error = stream_.receive(received_, stream_line_bytes_max, until))
      return error;
  }
}

result<std::string_view> line_stream::some(std::uint64_t bytes_max) {
  if (used_ == received_.size()) {
    received_.clear();
    used_ = 0;
    const worker::deadline until = silence_limit;
    const std::size_t most = std::min<std::uint64_t>(bytes_max, piece_bytes);
    if (const error_code error = stream_.receive(received_, most, until)) return error;
  }
  const std::size_t size = std::min<std::uint64_t>(bytes_max, received_.size() - used_);
  const std::string_view found(received_.data() + used_, size);
  used_ += size;
  return found;
}

std::uint64_t sent_entry::size() const {
  std::uint64_t all = 0;
  for (const sent_file& one : files)
    all += one.size;
  return all;
}

sent_entry from_memory(unique_fd folder, const entry& one) {
  sent_entry made{one.what, std::move(folder), {}, {}, one.from};
  for (const found_file& file : one.files)
    made.files.push_back({file.path, file.size, file.modified_ns, std::nullopt});
  return made;
}

std::optional<sent_entry> from_disk(const std::string& kept) {
  auto folder = open_folder(kept);
  const auto read = read_manifest(kept);
  if (!folder || !read) return std::nullopt;
  sent_entry made{read->what, std::move(*folder), std::string(files_folder) + "/", {}, read->from};
  for (const kept_file& file : read->files)
    made.files.push_back({file.path, file.size, file.modified_ns, file.checksum});
  return made;
}

std::string head_of(const sent_entry& one) {
  return "entry " + std::to_string(one.what.order) + " " + std::to_string(one.size()) + " " +
         to_text(one.from) + " " + one.what.name;
}

outcome send_files(line_stream& to, const sent_entry& one, const pace& go_on) {
  for (const sent_file& sent : one.files) {
    if (outcome done = send_file(to, one, sent, go_on); !done.is_done()) return done;
  }
  if (const error_code lost = to.send("end\n")) return failed_stream(lost);
  return {};
}

std::optional<received_entry> read_head(std::string_view line) {
  if (next_word(line) != "entry") return std::nullopt;
  const auto order = whole_number<std::int64_t>(next_word(line));
  const auto size = whole_number<std::uint64_t>(next_word(line));
  auto from = take_origin(line);
  if (!order || *order < 0 || !size || !from || !is_safe_path(line)) return std::nullopt;
  return received_entry{{*order, std::string(line)}, *size, std::move(*from)};
}

outcome receive_files(line_stream& from, const received_entry& head, int folder,
                      std::string_view below, manifest& made, const pace& go_on) {
  made = {head.what, {}, head.from};
  std::uint64_t left = head.size;
  while (true) {
    const auto read = from.line();
    if (!read) return failed_stream(read.error());
    if (*read == "end") break;
    std::string_view line = *read;
    const bool is_file = next_word(line) == "file";
    const auto size = whole_number<std::uint64_t>(next_word(line));
    const auto modified = whole_number<std::int64_t>(next_word(line));
    if (!is_file || !size || !modified) return wrong_stream("a malformed line");
    if (!is_of_entry(line, head.what.name)) return wrong_stream("a file of another entry");
    // A sender must not write more to our disk than it has announced.
    if (*size > left) return wrong_stream("more than it announced");
    if (made.files.size() >= received_files_max) return wrong_stream("too many files");
    left -= *size;
    const sent_file sent{std::string(line), *size, *modified, std::nullopt};
    if (outcome done = receive_file(from, sent, folder, below, made, go_on); !done.is_done())
      return done;
  }
  const bool is_whole =
      // The marker comes last, and its time is the order of the entry.
      left == 0 && !made.files.empty() && made.files.back().modified_ns == head.what.order;
  return is_whole ? outcome() : wrong_stream("less than it announced");
}

}  // namespace ddprun::launcher::vault
