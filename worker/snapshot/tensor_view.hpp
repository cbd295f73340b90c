// A tensor view is a tensor as a snapshot keeps it: a name, the type of its elements, a shape, and
// the bytes, in the machine's order (little endian), the last dimension running fastest.
//
// Types and their names are those of the safetensors format (github.com/huggingface/safetensors).
//
// Ownership: the bytes are another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

class device_bytes;  // device_bytes.hpp

enum class element_type {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64,
  c64,  // two f32
};

std::size_t bytes_of(element_type type);
std::string_view to_text(element_type type);  // "F32"
std::optional<element_type> parse_element_type(std::string_view text);

struct tensor_description {
  std::string name;
  element_type type = element_type::u8;
  std::vector<std::uint64_t> shape;  // empty: one element
  bool operator==(const tensor_description&) const = default;
};

// None when the number does not fit in 64 bits.
std::optional<std::uint64_t> bytes_of(const tensor_description& tensor);
std::string to_text(const tensor_description& tensor);  // "model.first.bias F32 [16]"

// Of which larger tensor it is a piece, and where in it: each rank has others
// (sharded_tensors.hpp).
struct tensor_piece {
  std::vector<std::uint64_t> shape;   // of the whole
  std::vector<std::uint64_t> offset;  // of the piece's first element
};

struct tensor_view : tensor_description {
  std::string_view bytes;
  // Where the bytes do not lie in host memory in this order (on a GPU, or a transposed view):
  // brings them to `to`, and has done so on return. `bytes` is not looked at then.
  std::function<void(char* to)> copy;
  // The same bytes, where they can come together with those of others; none: they cannot.
  std::shared_ptr<const device_bytes> on_device;
  // Only the optimizer's step changes it: it may be copied beside the next forward and backward
  // pass, on another thread (snapshots::begin_save).
  bool may_be_late = false;
  // A snapshot has rank 0's, whatever other ranks have: set it on a replicated tensor that may
  // differ between ranks (a buffer, such as BatchNorm's averages), on all of them, and on one that
  // only rank 0 has. Without it any rank may be the one that writes the tensor. Only in an
  // emergency, when rank 0 is dead, the snapshot has that of the rank that writes it.
  bool is_rank_0s = false;
  std::optional<tensor_piece> piece_of;  // of a rank's own only
};

}  // namespace ddprun::worker
