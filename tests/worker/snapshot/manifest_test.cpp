#include "worker/snapshot/manifest.hpp"

#include "tests/support/catch.hpp"
#include "worker/snapshot/checksum.hpp"
#include "worker/snapshot/names.hpp"

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

manifest example() {
  return {{3, 40, 4, 0x1122334455667788, 2}, {{131200, 0x0123456789abcdef}, {72, 1}}};
}

}  // namespace

TEST_CASE("XXH3 gives the values of the library's own tests", "[snapshot]") {
  CHECK(checksum_of("") == 0x2d06800538d394c2);
  checksum sum;
  for (const char* piece : {"a", "", "bc"})
    sum.add(piece);
  CHECK(sum.value() == checksum_of("abc"));
  CHECK(checksum_text(checksum_of("abc")) == "78af5f94892f3950");
}

TEST_CASE("a manifest is this text", "[snapshot]") {
  const std::string text = to_text(example());
  const std::string before =
      "{\n"
      "  \"format\": \"ddprun snapshot\", \"version\": 3,\n"
      "  \"generation\": 3, \"step\": 40, \"epoch\": 4, \"instance\": 1234605616436508552, "
      "\"round\": 2,\n"
      "  \"files\": [\n"
      "    {\"bytes\": 131200, \"xxh3\": \"0123456789abcdef\"},\n"
      "    {\"bytes\": 72, \"xxh3\": \"0000000000000001\"}],\n";
  CHECK(text == before + "  \"xxh3\": \"" + checksum_text(checksum_of(before)) + "\"\n}\n");
  const auto back = parse_manifest(text);
  REQUIRE(back.has_value());
  CHECK(*back == example());
  manifest told = example();
  told.info.tells_progress = true;
  CHECK(to_text(told).find("\"round\": 2, \"progress\": true,\n") != std::string::npos);
  CHECK(parse_manifest(to_text(told)).value() == told);
  told.info.is_emergency = true;
  CHECK(parse_manifest(to_text(told)).value() == told);
}

TEST_CASE("a manifest of version 1 or 2 is read, which calls the generation a tenure",
          "[snapshot]") {
  manifest shared = example();
  shared.replicated = {0, 1};
  for (const auto& [version, content] :
       {std::pair<std::string, manifest>{"1", example()}, {"2", shared}}) {
    std::string text = to_text(content);
    text = text.substr(0, text.rfind("  \"xxh3\""));
    for (const auto& [now, then] :
         {std::pair<std::string, std::string>{"\"version\": 3", "\"version\": " + version},
          {"\"generation\"", "\"tenure\""}}) {
      REQUIRE(text.find(now) != std::string::npos);
      text.replace(text.find(now), now.size(), then);
    }
    text += "  \"xxh3\": \"" + checksum_text(checksum_of(text)) + "\"\n}\n";
    INFO(text);
    const auto read = parse_manifest(text);
    REQUIRE(read.has_value());
    CHECK(*read == content);
  }
}

TEST_CASE("a manifest names the ranks that have written a share", "[snapshot]") {
  manifest shared = example();
  shared.replicated = {0, 1};
  const std::string text = to_text(shared);
  CHECK(text.find("\"round\": 2,\n  \"replicated\": [0,1],\n") != std::string::npos);
  CHECK(parse_manifest(text).value() == shared);
  for (const std::string wrong : {"[]", "[1]", "[0,0]", "[0,2]", "[0,-1]", "[0,\"1\"]", "7"}) {
    std::string other = text.substr(0, text.rfind("  \"xxh3\""));
    other.replace(other.find("[0,1]"), 5, wrong);
    other += "  \"xxh3\": \"" + checksum_text(checksum_of(other)) + "\"\n}\n";
    INFO(other);
    CHECK(parse_manifest(other).error() == errc::damaged);
  }
}

TEST_CASE("every prefix and every turned bit of a manifest is found damaged", "[snapshot]") {
  const std::string whole = to_text(example());
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK(parse_manifest(whole.substr(0, size)).error() == errc::damaged);
  CHECK(parse_manifest(whole + "x").error() == errc::damaged);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string turned = whole;
    turned[bit / 8] = static_cast<char>(turned[bit / 8] ^ (1 << (bit % 8)));
    CHECK(parse_manifest(turned).error() == errc::damaged);
  }
}

TEST_CASE("names in a snapshot folder are read back, and only in the one form", "[snapshot]") {
  for (const snapshot_order order : {snapshot_order{1, 10},
                                     {999999, 0},
                                     {1000000, 12345678},
                                     {generation_limit, ~std::uint64_t{0}}}) {
    CHECK(parse_snapshot_name(snapshot_name(order)) == order);
  }
  CHECK(snapshot_name({3, 40}) == "snapshot-000003-000040");
  CHECK(rank_file_name(3) == "rank-00003.safetensors");
  for (const char* name :
       {"", "snapshot-", "snapshot-3-40", "snapshot-0000003-000040", "snapshot-000003-000040.tmp",
        "snapshot-000003", "snapshot--", "snapshot-000003-00004x", "snapshot-000003-000040-000050",
        "claim-000003", "snapshot-000003-99999999999999999999999",
        "snapshot-18446744073709551615-000001"}) {
    CHECK(!parse_snapshot_name(name));
  }
  CHECK(parse_claim_name(claim_name(12)) == 12);
  CHECK(!parse_claim_name("claim-12"));
  CHECK(parse_resumed_name(resumed_name(12)) == 12);
  CHECK(is_name_of_old_format("snapshot-000003-000040.ddprun"));
  CHECK(!is_name_of_old_format("snapshot-000003-000040"));
  for (const char* name : {"rank-00003.safetensors", "manifest.json", "manifest.json.tmp",
                           "resumed-000004", "model.safetensors.index.json"})
    CHECK(is_name_in_snapshot(name));
  CHECK(!is_name_in_snapshot("notes.txt"));
}

}  // namespace ddprun::tests
