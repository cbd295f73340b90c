// An entry as it is sent between two nodes, over a connection on which the caller has named it:
//
//   entry ORDER BYTES NODES ROUND NAME
//   file SIZE MODIFIED PATH    then SIZE bytes, then "sum CHECKSUM" on a line
//   ...
//   end
//
// Numbers are as in the manifest (vault_manifest.hpp), NODES and ROUND as in entry_origin.hpp. The
// marker is the last file. The receiver writes data as it comes and holds at most `piece_bytes` in
// memory. It ends the transfer at a path outside of the entry, at more bytes than announced, and at
// a wrong checksum.
//
// Thread rule: a thread that may block; each piece takes `silence_limit` at most. Errors:
// `problem`.
#pragma once

#include "launcher/vault/vault_files.hpp"
#include "launcher/vault/vault_manifest.hpp"
#include "worker/blocking_stream.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::vault {

inline constexpr std::size_t piece_bytes = 256 * 1024;
inline constexpr std::size_t stream_line_bytes_max = 2048;
inline constexpr std::chrono::seconds silence_limit{20};

// A connection that is read in lines, with raw bytes between them.
class line_stream {
 public:
  explicit line_stream(worker::blocking_stream stream) : stream_(std::move(stream)) {}

  error_code send(std::string_view bytes, duration limit = silence_limit);
  // Returns a line without its newline. Errors: message_too_long, or the stream's.
  result<std::string> line(duration limit = silence_limit);
  // Returns at least one byte, at most `bytes_max` or a piece; valid until the next call.
  result<std::string_view> some(std::uint64_t bytes_max);

 private:
  worker::blocking_stream stream_;
  std::string received_;
  std::size_t used_ = 0;
};

struct sent_file {
  std::string path;  // in the vault
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;
  std::optional<std::uint64_t> checksum;  // none: not known
};

// An entry of this node, in memory or on disk.
struct sent_entry {
  version what;
  unique_fd folder;
  std::string below;  // "files/" for an entry on disk
  std::vector<sent_file> files;
  origin from;

  std::uint64_t size() const;
};

sent_entry from_memory(unique_fd folder, const entry& one);
// None: its manifest is damaged.
std::optional<sent_entry> from_disk(const std::string& kept);

// The first line, without its newline.
std::string head_of(const sent_entry& one);
outcome send_files(line_stream& to, const sent_entry& one, const pace& go_on);

struct received_entry {
  version what;
  std::uint64_t size = 0;
  origin from;
};
// None: the line is no such head.
std::optional<received_entry> read_head(std::string_view line);
// Receives the files after the head into `folder`, under the prefix `below`. After an error a part
// of them may be there. `made` returns what was received.
outcome receive_files(line_stream& from, const received_entry& head, int folder,
                      std::string_view below, manifest& made, const pace& go_on);

}  // namespace ddprun::launcher::vault
