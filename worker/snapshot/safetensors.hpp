// The safetensors format, version 1 (github.com/huggingface/safetensors): one file of named
// tensors, which Python's `safetensors` can open.
//
//   offset      bytes
//        0          8  n, the length of the header, little endian
//        8          n  JSON: {"__metadata__": {"text": "text"...},
//                             "name": {"dtype": "F32", "shape": [2, 3],
//                                      "data_offsets": [0, 24]}...},
//                      and spaces, so that the data begin at a multiple of 64
//    8 + n          .  the tensors' bytes, one after the other without gaps
//
// Tensors with the widest elements are written first, so that each begins at a multiple of its
// element size in a mapped file. Any order that the format allows can be read.
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

constexpr std::uint64_t safetensors_header_bytes_max = 100'000'000;  // the reference's

struct safetensors_header {
  std::string bytes;               // the length and the JSON
  std::vector<std::size_t> order;  // of the tensors' bytes, as indices of `tensors`
  std::uint64_t data_bytes = 0;
};

// Names must be unique, and "__metadata__" is reserved. `problem` describes errors:
// invalid_argument, or limit_reached if the header exceeds its limit or the data 64 bits.
result<safetensors_header> make_safetensors_header(std::span<const tensor_view> tensors,
                                                   const text_map& metadata, std::string& problem);

struct safetensors_content {
  text_map metadata;
  std::vector<tensor_view> tensors;  // in the order of the file; their bytes point into it
  // nullptr if there is no tensor of that name.
  const tensor_view* find(std::string_view name) const;
};

// The length of the header including its length field: 0 if the file is too short to contain that,
// and never more than safetensors_header_bytes_max plus the length field.
std::uint64_t safetensors_header_bytes(std::string_view file);

// Reads the header alone: the tensors have no bytes. They are in the order of their data.
result<safetensors_content> read_safetensors_header(std::string_view header, std::string& problem);

// Reads a whole file. errc::damaged if it is cut off or has another format; `problem` says where.
result<safetensors_content> read_safetensors(std::string_view file, std::string& problem);

}  // namespace ddprun::worker
