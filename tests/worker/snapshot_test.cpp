#include "worker/snapshot.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/fault_file_system.hpp"
#include "worker/checksum.hpp"

#include <cerrno>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

struct folder_under_test {
  fault_file_system files;
  std::vector<std::string> messages;

  message_handler keep_messages() {
    return [this](const std::string& line) { messages.push_back(line); };
  }
  result<snapshot_writer> open(round_number round, instance_id instance = 77) {
    snapshot_options options;
    options.folder = "f";
    options.keep = 3;
    options.instance = instance;
    options.round = round;
    options.on_message = keep_messages();
    return snapshot_writer::open(files, options);
  }
  std::optional<snapshot> newest() {
    auto found = newest_snapshot(files, "f", keep_messages());
    REQUIRE(found.has_value());
    return *found;
  }
};

}  // namespace

TEST_CASE("CRC-32C gives the values of RFC 3720", "[snapshot]") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string rising;
  for (char byte = 0; byte < 32; ++byte)
    rising.push_back(byte);
  CHECK(crc32c(rising) == 0x46dd794e);
  for (std::size_t cut = 0; cut <= rising.size(); ++cut) {
    CHECK(crc32c(rising.substr(cut), crc32c(rising.substr(0, cut))) == 0x46dd794e);
  }
}

TEST_CASE("a snapshot header has these bytes", "[snapshot]") {
  const snapshot_info info{0x0102, 0x1122334455667788, 3, 40, 5};
  const std::string expected(
      "DDPRSNAP\x01\0\0\0\0\0\0\0"
      "\x02\x01\0\0\0\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11"
      "\x03\0\0\0\0\0\0\0\x28\0\0\0\0\0\0\0"
      "\x05\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0"
      "\x83\x92\x06\xe3",
      68);
  const std::string header = encode_snapshot_header(info, "123456789");
  REQUIRE(header.size() == snapshot_header_bytes);
  CHECK(header.substr(0, 68) == expected);
  const auto back = check_snapshot(header + "123456789");
  REQUIRE(back.has_value());
  CHECK(*back == info);
}

TEST_CASE("every prefix and every flipped bit of a snapshot is found damaged", "[snapshot]") {
  const std::string whole = encode_snapshot_header({1, 2, 3, 4, 5}, "payload") + "payload";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK(check_snapshot(whole.substr(0, size)).error() == errc::damaged);
  }
  CHECK(check_snapshot(whole + "x").error() == errc::damaged);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    CHECK(check_snapshot(flipped).error() == errc::damaged);
  }
}

TEST_CASE("names of snapshots are read back, and only in the one form", "[snapshot]") {
  for (const snapshot_order order : {snapshot_order{1, 10},
                                     {999999, 0},
                                     {1000000, 12345678},
                                     {tenure_limit, ~std::uint64_t{0}}}) {
    CHECK(parse_snapshot_name(snapshot_name(order)) == order);
  }
  CHECK(snapshot_name({3, 40}) == "snapshot-000003-000040.ddprun");
  for (const char* name :
       {"", "snapshot-", "snapshot-3-40.ddprun", "snapshot-0000003-000040.ddprun",
        "snapshot-000003-000040.ddprun.tmp", "snapshot-000003.ddprun", "snapshot--.ddprun",
        "snapshot-000003-00004x.ddprun", "snapshot-000003-000040-000050.ddprun", "claim-000003",
        "snapshot-000003-99999999999999999999999.ddprun",
        "snapshot-18446744073709551615-000001.ddprun"}) {
    CHECK(!parse_snapshot_name(name));
  }
  CHECK(parse_claim_name(claim_name(12)) == 12);
  CHECK(!parse_claim_name("claim-12"));
}

TEST_CASE("the newest snapshot is found with its round, epoch and bytes", "[snapshot]") {
  folder_under_test test;
  CHECK(!test.newest());
  auto writer = test.open(2);
  REQUIRE(writer.has_value());
  CHECK(!test.newest());
  REQUIRE(writer->save(9, 1, "nine").has_value());
  const auto path = writer->save(10, 1, "ten");
  REQUIRE(path);
  CHECK(*path == "f/snapshot-000001-000010.ddprun");
  const auto found = test.newest();
  REQUIRE(found.has_value());
  CHECK(found->info == snapshot_info{1, 77, 2, 10, 1});
  CHECK(found->payload() == "ten");
  CHECK(found->path == *path);
  CHECK(test.messages.empty());
}

TEST_CASE("saving a step again replaces it", "[snapshot]") {
  folder_under_test test;
  auto writer = test.open(1);
  REQUIRE(writer->save(10, 1, "first").has_value());
  REQUIRE(writer->save(10, 1, "second").has_value());
  CHECK(test.newest()->payload() == "second");
}

TEST_CASE("only the newest three are kept, over rounds", "[snapshot]") {
  folder_under_test test;
  auto first = test.open(1);
  for (const std::uint64_t step : {10, 20, 30, 40})
    REQUIRE(first->save(step, step, "x").has_value());
  CHECK(!test.files.exists("f/snapshot-000001-000010.ddprun"));
  CHECK(test.files.exists("f/snapshot-000001-000020.ddprun"));
  auto second = test.open(2);
  REQUIRE(second->save(35, 35, "y").has_value());
  CHECK(!test.files.exists("f/snapshot-000001-000020.ddprun"));
  CHECK(test.files.exists("f/snapshot-000001-000030.ddprun"));
  CHECK(test.files.exists("f/snapshot-000002-000035.ddprun"));
}

TEST_CASE("a torn or damaged snapshot is skipped with a message", "[snapshot]") {
  folder_under_test test;
  auto writer = test.open(1);
  for (const std::uint64_t step : {10, 20, 30})
    REQUIRE(writer->save(step, step, "payload").has_value());
  test.files.bytes("f/snapshot-000001-000030.ddprun").pop_back();
  test.files.bytes("f/snapshot-000001-000020.ddprun").back() ^= 1;
  const auto found = test.newest();
  REQUIRE(found.has_value());
  CHECK(found->info.step == 10);
  CHECK(test.messages ==
        std::vector<std::string>{"snapshot f/snapshot-000001-000030.ddprun skipped: damaged data",
                                 "snapshot f/snapshot-000001-000020.ddprun skipped: damaged data"});
}

TEST_CASE("where every snapshot is damaged training does not begin anew", "[snapshot]") {
  folder_under_test test;
  auto writer = test.open(1);
  REQUIRE(writer->save(10, 1, "payload").has_value());
  test.files.bytes("f/snapshot-000001-000010.ddprun").pop_back();
  CHECK(newest_snapshot(test.files, "f", test.keep_messages()).error() == errc::damaged);
  CHECK(test.messages.back() ==
        "no snapshot in f can be read; to begin from the start, move the damaged ones away");
}

TEST_CASE("what cannot be read now is no damage, and is waited for", "[snapshot]") {
  struct trouble {
    int number;
    bool in_all;
  };
  for (const auto [number, in_all] :
       {trouble{EIO, false}, trouble{EIO, true}, trouble{EACCES, false}, trouble{ENOMEM, true},
        trouble{ESTALE, false}, trouble{ESTALE, true}}) {
    INFO("errno " << number << ", in all " << in_all);
    folder_under_test test;
    auto yesterday = test.open(1, 77);
    for (const std::uint64_t step : {10, 20, 30})
      REQUIRE(yesterday->save(step, step, "payload").has_value());
    const std::vector<std::string> all = {"f/snapshot-000001-000010.ddprun",
                                          "f/snapshot-000001-000020.ddprun",
                                          "f/snapshot-000001-000030.ddprun"};
    for (const std::string& name : all) {
      if (in_all || name == all.back()) test.files.fail_reads(name, number);
    }
    // One that goes on all the same takes nothing of what it has not seen.
    auto writer = test.open(1, 78);
    REQUIRE(writer.has_value());
    const auto found = newest_snapshot(test.files, "f", test.keep_messages());
    CHECK(!found);
    CHECK(test.messages.back().find(all.back()) != std::string::npos);
    for (const std::uint64_t step : {1, 2, 3, 4, 5})
      REQUIRE(writer->save(step, step, "anew").has_value());
    test.files.heal();
    CHECK(test.files.exists(all.back()));
    if (in_all) CHECK((test.files.exists(all[0]) && test.files.exists(all[1])));
  }
}

TEST_CASE("a snapshot of a newer format, or over the limit, is not skipped", "[snapshot]") {
  folder_under_test test;
  auto writer = test.open(1);
  REQUIRE(writer->save(10, 1, "payload").has_value());
  REQUIRE(writer->save(20, 2, "payload").has_value());
  std::string& newer = test.files.bytes("f/snapshot-000001-000020.ddprun");
  newer[8] = 2;
  const std::uint32_t sum = crc32c(newer.substr(0, 68));
  for (int byte = 0; byte < 4; ++byte)
    newer[68 + static_cast<std::size_t>(byte)] = static_cast<char>(sum >> (8 * byte) & 0xff);
  CHECK(newest_snapshot(test.files, "f", test.keep_messages()).error() == errc::version_mismatch);
  CHECK(test.messages.back() ==
        "snapshot f/snapshot-000001-000020.ddprun cannot be read: it has a newer format than this "
        "program can read; start again when it can be, or move it away to go on from the one "
        "before it");
  // The next writer leaves it alone, and removes the others in their order.
  auto next = test.open(2);
  for (const std::uint64_t step : {30, 40, 50, 60})
    REQUIRE(next->save(step, step, "x").has_value());
  CHECK(test.files.exists("f/snapshot-000001-000020.ddprun"));
  CHECK(!test.files.exists("f/snapshot-000001-000010.ddprun"));
  CHECK(!test.files.exists("f/snapshot-000002-000030.ddprun"));
}

TEST_CASE("what no reader would take is not saved", "[snapshot]") {
  folder_under_test test;
  auto writer = test.open(1);
  // It is refused by its length: nobody looks at the bytes.
  const std::string_view long_one("", snapshot_bytes_max - snapshot_header_bytes + 1);
  CHECK(writer->save(10, 1, long_one).error() == errc::limit_reached);
  CHECK(test.messages.back().find("it is longer than 68719476736 bytes") != std::string::npos);
  CHECK(!test.newest());
}

TEST_CASE("the greatest number of a claim is said, not passed", "[snapshot]") {
  folder_under_test test;
  test.files.put("f/snapshot-18446744073709551615-000001.ddprun", "nobody's of us");
  test.files.put("f/claim-18446744073709551615", "1 1\n");
  auto writer = test.open(1);
  REQUIRE(writer.has_value());
  CHECK(writer->tenure() == 1);
  REQUIRE(writer->save(10, 1, "payload").has_value());
  CHECK(test.newest()->payload() == "payload");
  test.files.put("f/" + claim_name(tenure_limit), "1 1\n");
  CHECK(test.open(2, 78).error() == errc::limit_reached);
  CHECK(test.messages.back().find("move that away") != std::string::npos);
}

TEST_CASE("a snapshot under another's name is skipped", "[snapshot]") {
  folder_under_test test;
  auto writer = test.open(1);
  REQUIRE(writer->save(10, 1, "payload").has_value());
  const std::string bytes = test.files.bytes("f/snapshot-000001-000010.ddprun");
  test.files.put("f/snapshot-000001-000099.ddprun", bytes);
  CHECK(test.newest()->info.step == 10);
  CHECK(test.messages.size() == 1);
}

TEST_CASE("a worker of an older round is refused, and never wins", "[snapshot]") {
  folder_under_test test;
  auto old_round = test.open(1);
  REQUIRE(old_round->save(20, 20, "old").has_value());
  auto new_round = test.open(2);
  REQUIRE(new_round.has_value());
  CHECK(old_round->save(30, 30, "stale").error() == errc::refused);
  REQUIRE(new_round->save(25, 25, "new").has_value());
  CHECK(old_round->save(40, 40, "stale").error() == errc::refused);
  CHECK(test.messages.back() ==
        "snapshot folder f: a newer round has it (claim-000002), this one is over");
  CHECK(test.newest()->payload() == "new");

  // It was frozen between its check and its rename: the file is there, and still does not win.
  test.files.put("f/snapshot-000001-000050.ddprun",
                 encode_snapshot_header({1, 77, 1, 50, 50}, "stale") + "stale");
  CHECK(test.newest()->payload() == "new");
  CHECK(test.messages.back() ==
        "snapshot f/snapshot-000001-000050.ddprun skipped: an older round left it; the newest is "
        "f/snapshot-000002-000025.ddprun");
}

TEST_CASE("a worker of an older round that starts late may not open the folder", "[snapshot]") {
  folder_under_test test;
  REQUIRE(test.open(5).has_value());
  CHECK(test.open(4).error() == errc::refused);
  CHECK(test.messages.back() ==
        "snapshot folder f: round 5 has it, this is round 4, which is over");
  CHECK(test.open(5).has_value());
  CHECK(test.open(6).has_value());
}

TEST_CASE("rounds begin at 1 again in the next instance, and without one", "[snapshot]") {
  folder_under_test test;
  auto yesterday = test.open(7, 77);
  REQUIRE(yesterday->save(50, 50, "yesterday").has_value());
  auto today = test.open(1, 78);
  REQUIRE(today.has_value());
  CHECK(test.newest()->payload() == "yesterday");
  REQUIRE(today->save(60, 60, "today").has_value());
  CHECK(test.newest()->payload() == "today");
  auto torchrun = test.open(1, 0);
  REQUIRE(torchrun.has_value());
  REQUIRE(torchrun->save(70, 70, "torchrun").has_value());
  CHECK(test.newest()->payload() == "torchrun");
}

TEST_CASE("leftovers of a crash are removed by the next writer", "[snapshot]") {
  folder_under_test test;
  REQUIRE(test.open(1).has_value());
  test.files.put("f/snapshot-000001-000010.ddprun.tmp", "half");
  test.files.put("f/claim-000002", "");  // torn by a power cut
  test.files.put("f/notes.txt", "the reader's own");
  auto writer = test.open(2);
  REQUIRE(writer.has_value());
  CHECK(writer->tenure() == 3);
  CHECK(!test.files.exists("f/snapshot-000001-000010.ddprun.tmp"));
  CHECK(!test.files.exists("f/claim-000001"));
  CHECK(!test.files.exists("f/claim-000002"));
  CHECK(test.files.exists("f/claim-000003"));
  CHECK(test.files.exists("f/notes.txt"));
}

}  // namespace ddprun::tests
