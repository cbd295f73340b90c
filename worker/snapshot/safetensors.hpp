// The safetensors format, version 1 (github.com/huggingface/safetensors): one file of named
// tensors, which Python's `safetensors` opens as it is.
//
//   offset      bytes
//        0          8  n, the length of the header, little endian
//        8          n  JSON: {"__metadata__": {"text": "text"...},
//                             "name": {"dtype": "F32", "shape": [2, 3],
//                                      "data_offsets": [0, 24]}...},
//                      and spaces, so that the data begin at a multiple of 64
//    8 + n          .  the tensors' bytes, one behind the other without a gap
//
// We write the tensors with the widest elements first, so that each begins at a multiple of its
// element's length when the file is mapped. We read every order, as the format allows.
//
// Pure: bytes in, values out. Thread rule: any thread.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/snapshot_state.hpp"
#include "worker/snapshot/tensor_view.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

constexpr std::uint64_t safetensors_header_bytes_max = 100'000'000;  // that of the reference

struct safetensors_header {
  std::string bytes;               // the length and the JSON
  std::vector<std::size_t> order;  // in which the tensors' bytes follow: indices of `tensors`
  std::uint64_t data_bytes = 0;
};

// Names must differ, and "__metadata__" is none. `problem` is filled on errors: invalid_argument;
// limit_reached, a header over its limit or data over 64 bits.
result<safetensors_header> make_safetensors_header(std::span<const tensor_view> tensors,
                                                   const text_map& metadata, std::string& problem);

struct safetensors_content {
  text_map metadata;
  std::vector<tensor_view> tensors;  // in the order of the file; their bytes are the file's own
  // None: there is no tensor of that name.
  const tensor_view* find(std::string_view name) const;
};

// How long its header is, the length itself with it; 0 where there are too few bytes to tell, and
// never more than safetensors_header_bytes_max and the length.
std::uint64_t safetensors_header_bytes(std::string_view file);

// Of the header alone: the tensors have no bytes. They follow each other in this order.
result<safetensors_content> read_safetensors_header(std::string_view header, std::string& problem);

// Of a whole file. errc::damaged: it is cut short, or not of this format; `problem` says where.
result<safetensors_content> read_safetensors(std::string_view file, std::string& problem);

}  // namespace ddprun::worker
