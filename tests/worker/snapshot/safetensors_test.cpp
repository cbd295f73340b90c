#include "worker/snapshot/safetensors.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/effort.hpp"

#include <random>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

tensor_view tensor(std::string name, element_type type, std::vector<std::uint64_t> shape,
                   std::string_view bytes) {
  tensor_view made;
  made.name = std::move(name);
  made.type = type;
  made.shape = std::move(shape);
  made.bytes = bytes;
  return made;
}

std::string file_of(const std::vector<tensor_view>& tensors, const text_map& metadata = {}) {
  std::string problem;
  const auto header = make_safetensors_header(tensors, metadata, problem);
  INFO(problem);
  REQUIRE(header.has_value());
  std::string file = header->bytes;
  for (const std::size_t index : header->order)
    file += tensors[index].bytes;
  return file;
}

std::string file_with_header(const std::string& json, std::string_view data = "") {
  std::string file(8, '\0');
  for (std::size_t byte = 0; byte < 8; ++byte)
    file[byte] = static_cast<char>((json.size() >> (8 * byte)) & 0xff);
  return file + json + std::string(data);
}

std::string problem_of_file(std::string_view file) {
  std::string problem;
  const auto content = read_safetensors(file, problem);
  if (content) return "";
  CHECK(content.error() == errc::damaged);
  return problem;
}

}  // namespace

TEST_CASE("a safetensors file has these bytes", "[snapshot]") {
  const std::string json =
      R"({"__metadata__":{"step":"4"},"bias":{"data_offsets":[0,4],"dtype":"F32","shape":[]}})";
  std::string expected = file_with_header(json);
  const std::size_t padding = 64 - expected.size() % 64;
  expected[0] = static_cast<char>(json.size() + padding);
  expected += std::string(padding, ' ') + std::string("\0\0\x80\x3f", 4);
  CHECK(file_of({tensor("bias", element_type::f32, {}, {"\0\0\x80\x3f", 4})}, {{"step", "4"}}) ==
        expected);
}

TEST_CASE("tensors are read as they were written, aligned", "[snapshot]") {
  const std::string bytes(64, 'x');
  const std::vector<tensor_view> tensors = {
      tensor("flags", element_type::boolean, {3}, std::string_view(bytes).substr(0, 3)),
      tensor("half", element_type::bf16, {1, 3}, std::string_view(bytes).substr(0, 6)),
      tensor("none", element_type::f64, {0, 7}, ""),
      tensor("steps", element_type::i64, {2}, std::string_view(bytes).substr(0, 16)),
      tensor("w", element_type::f32, {2, 2}, std::string_view(bytes).substr(0, 16))};
  const std::string file = file_of(tensors, {{"a", "1"}, {"\"quoted\"\n", "\xc3\xa4"}});
  std::string problem;
  const auto content = read_safetensors(file, problem);
  INFO(problem);
  REQUIRE(content.has_value());
  CHECK(content->metadata == text_map{{"a", "1"}, {"\"quoted\"\n", "\xc3\xa4"}});
  REQUIRE(content->tensors.size() == tensors.size());
  for (const auto& each : tensors) {
    const auto* const found = content->find(each.name);
    REQUIRE(found != nullptr);
    CHECK(static_cast<const tensor_description&>(*found) == each);
    CHECK(found->bytes == each.bytes);
    const auto offset = static_cast<std::size_t>(found->bytes.data() - file.data());
    CHECK(offset % bytes_of(each.type) == 0);
  }
  CHECK(content->find("v") == nullptr);
  CHECK(to_text(tensors[1]) == "half BF16 [1, 3]");
}

TEST_CASE("every prefix of a safetensors file is found damaged", "[snapshot]") {
  const std::string bytes(16, 'x');
  const std::string file = file_of({tensor("w", element_type::f32, {2, 2}, bytes)});
  for (std::size_t size = 0; size < file.size(); ++size)
    CHECK(problem_of_file(file.substr(0, size)) != "");
  CHECK(problem_of_file(file + "x") == "it is longer than its header says");
}

TEST_CASE("no turned bits lead out of a safetensors file", "[snapshot]") {
  const std::string bytes(24, 'x');
  const std::string file = file_of({tensor("w", element_type::f32, {2, 2}, {bytes.data(), 16}),
                                    tensor("v", element_type::u8, {8}, {bytes.data(), 8})},
                                   {{"key", "value"}});
  const auto inside = [](const std::string& changed) {
    std::string problem;
    const auto content = read_safetensors(changed, problem);
    if (!content) return !problem.empty();
    for (const auto& each : content->tensors) {
      if (each.bytes.size() != bytes_of(each)) return false;
      if (each.bytes.data() + each.bytes.size() > changed.data() + changed.size()) return false;
    }
    return true;
  };
  for (const std::uint64_t bit : cases_to_take(file.size() * 8, 400)) {
    std::string changed = file;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    CHECK(inside(changed));
  }
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::size_t turns = cases_to_take(5000, 1000).size();
  for (std::size_t turn = 0; turn < turns; ++turn) {
    std::string changed = file;
    for (unsigned count = 1 + random() % 6; count > 0; --count)
      changed[random() % changed.size()] =
          static_cast<char>("0123456789[]{},:\"-e. \\"[random() % 22]);
    CHECK(inside(changed));
  }
}

TEST_CASE("what is no safetensors file is told apart", "[snapshot]") {
  const std::string w = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":)";
  CHECK(problem_of_file(file_with_header(w + "[0,4]}}", "1234")) == "");
  CHECK(problem_of_file(file_with_header(w + "[0,4]}}   \n", "1234")) == "");
  CHECK(problem_of_file(file_with_header(" {}")) == "it is not a safetensors file");
  CHECK(problem_of_file("PK\x03\x04 a zip archive of torch.save") ==
        "it is not a safetensors file");
  CHECK(problem_of_file(file_with_header("{\"w\"}")) == "its header is not JSON");
  CHECK(problem_of_file(file_with_header(w + "[4,8]}}", "12345678")) == "tensor 'w' is misplaced");
  CHECK(problem_of_file(file_with_header(w + "[0,8]}}", "12345678")) ==
        "tensor w F32 [1] has 8 bytes");
  CHECK(problem_of_file(file_with_header(w + "[4,0]}}", "1234")) ==
        "tensor w F32 [1] has 18446744073709551612 bytes");
  CHECK(problem_of_file(file_with_header(w + "[0]}}", "1234")) ==
        "tensor 'w' has no shape or no data_offsets");
  CHECK(problem_of_file(file_with_header(w + "[0,-4]}}", "1234")) ==
        "tensor 'w' has no shape or no data_offsets");
  CHECK(problem_of_file(
            file_with_header(R"({"w":{"dtype":"F3","shape":[],"data_offsets":[0,4]}})")) ==
        "tensor 'w' has no supported dtype");
  CHECK(problem_of_file(file_with_header(R"({"w":[]})")) == "tensor 'w' has no supported dtype");
  CHECK(problem_of_file(file_with_header(R"({"__metadata__":{"a":1}})")) ==
        "its __metadata__ 'a' is not a text");
  CHECK(problem_of_file(file_with_header(
            R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")) ==
        "tensor w F32 [4294967296, 4294967296] has 0 bytes");
  const std::string twice = R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  CHECK(problem_of_file(file_with_header("{" + twice + "," + twice + "}", "1")) ==
        "'w' occurs in it twice");
}

TEST_CASE("what would make no safetensors file is refused", "[snapshot]") {
  const auto refusal = [](const std::vector<tensor_view>& tensors) {
    std::string problem;
    CHECK_FALSE(make_safetensors_header(tensors, {}, problem).has_value());
    return problem;
  };
  const auto w = tensor("w", element_type::u8, {2}, "12");
  CHECK(refusal({w, w}) == "two tensors have the name 'w'");
  CHECK(refusal({tensor("__metadata__", element_type::u8, {1}, "1")}) ==
        "two tensors have the name '__metadata__'");
  CHECK(refusal({tensor("w", element_type::f32, {2}, "1234")}) == "tensor w F32 [2] has 4 bytes");
  CHECK(refusal({tensor("\xff", element_type::u8, {1}, "1")}) ==
        "a name or a text in it is not UTF-8");
}

}  // namespace ddprun::tests
