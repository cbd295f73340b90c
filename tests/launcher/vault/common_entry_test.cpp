#include "launcher/vault/common_entry.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

using namespace ddprun::launcher::vault;

namespace {

node_word holding(std::vector<held_entry> held, std::set<std::uint32_t> savers = {}) {
  node_word word;
  word.held = std::move(held);
  word.savers = std::move(savers);
  return word;
}

held_entry of(std::uint32_t node, std::int64_t order, std::string name, origin from = {}) {
  return {node, {order, std::move(name)}, std::move(from)};
}

std::string chosen(const common_choice& choice) {
  std::string text;
  for (const auto& [node, part] : choice.parts) {
    text += std::to_string(node) + ":" + part.what.name + "@" + std::to_string(part.what.order);
    for (const std::uint32_t holder : part.holders)
      text += "," + std::to_string(holder);
    text += " ";
  }
  return text;
}

}  // namespace

TEST_CASE("all nodes go on from the newest entry that each of them has", "[vault]") {
  const std::vector<node_word> words = {
      holding({of(0, 10, "step-1"), of(0, 20, "step-2"), of(0, 30, "step-3")}),
      holding({of(1, 11, "step-1"), of(1, 21, "step-2")})};
  const auto choice = choose_common(words, {});
  CHECK(chosen(choice) == "0:step-2@20,0 1:step-2@21,1 ");
  CHECK(choice.is_any_newer);
  CHECK(chosen(choose_common(words, {{"step-2", {}}})) == "0:step-1@10,0 1:step-1@11,1 ");
  CHECK(chosen(choose_common(words, {{"step-1", {}}, {"step-2", {}}})).empty());
}

TEST_CASE("what a lost node had counts where another node has a copy of it", "[vault]") {
  const auto choice = choose_common({holding({of(0, 10, "a"), of(1, 11, "a"), of(1, 12, "b")}),
                                     holding({}), holding({of(2, 9, "a"), of(1, 11, "a")})},
                                    {});
  CHECK(chosen(choice) == "0:a@10,0 1:a@11,0,2 2:a@9,2 ");
  CHECK(choice.is_any_newer);
}

TEST_CASE("a node without a vault is given nothing, and its part of nothing is taken", "[vault]") {
  node_word without;
  without.has_vault = false;
  const origin of_one{"7.1", 1};
  SECTION("where it has never saved, the others go on as if it were not there") {
    const auto choice =
        choose_common({holding({of(0, 10, "a", of_one)}), without, holding({})}, {});
    CHECK(chosen(choice) == "0:a@10,0 2:a@10,0 ");
  }
  SECTION("what there is of it with others is of no use to it") {
    const origin of_two{"7.2", 2};
    const auto choice = choose_common(
        {holding({of(0, 10, "a", of_one), of(0, 20, "b", of_two), of(1, 20, "b", of_two)}),
         without},
        {});
    CHECK(chosen(choice) == "0:a@10,0 ");
    CHECK(choice.is_any_newer);
  }
}

TEST_CASE("the next node with a vault is that of the next number, and round", "[vault]") {
  node_word without;
  without.has_vault = false;
  const std::vector<node_word> words = {holding({}), without, holding({}), without};
  CHECK(next_with_vault(words, 0) == 2);
  CHECK(next_with_vault(words, 2) == 0);
  CHECK(next_with_vault({holding({}), without}, 0) == 0);
  CHECK(next_with_vault({holding({})}, 0) == 0);
}

TEST_CASE("of two entries of one name the newer one is the node's", "[vault]") {
  const auto choice = choose_common(
      {holding({of(0, 10, "a"), of(0, 50, "a"), of(1, 40, "a")}), holding({of(1, 60, "a")})}, {});
  CHECK(chosen(choice) == "0:a@50,0 1:a@60,1 ");
  CHECK_FALSE(choice.is_any_newer);
}

TEST_CASE("what one node has set aside no node takes, even if it has a copy", "[vault]") {
  std::vector<node_word> words = {holding({of(0, 10, "a"), of(0, 20, "b"), of(1, 11, "a")}),
                                  holding({of(1, 11, "a"), of(1, 21, "b"), of(0, 20, "b")})};
  words[0].aside = {{0, {20, "b"}}};
  const auto choice = choose_common(words, {});
  CHECK(chosen(choice) == "0:a@10,0 1:a@11,0,1 ");
  // An entry saved later under the same name is another entry.
  words[0].held.push_back(of(0, 30, "b"));
  CHECK(chosen(choose_common(words, {})) == "0:b@30,0 1:b@21,1 ");
}

TEST_CASE("what was saved by fewer nodes needs no part of those that came later", "[vault]") {
  const origin two{"7.1", 2};
  const origin one{"7.2", 1};
  // Node 1 was lost, node 0 went on alone, and another node came.
  const std::vector<node_word> words = {
      holding({of(0, 10, "a", two), of(1, 11, "a", two), of(0, 20, "b", one)}, {0, 1}),
      holding({})};
  const auto choice = choose_common(words, {});
  CHECK(chosen(choice) == "0:b@20,0 1:b@20,0 ");
  CHECK(choice.key == entry_key{"b", one});
  CHECK(choice.parts.at(1).of == 0);
  CHECK_FALSE(choice.is_any_newer);
  CHECK(chosen(choose_common(words, {choice.key})) == "0:a@10,0 1:a@11,0 ");
  // Two nodes joined two others: each gets one of the parts.
  const origin was_two{"7.3", 2};
  const auto more =
      choose_common({holding({of(0, 30, "c", was_two)}), holding({of(1, 31, "c", was_two)}),
                     holding({}), holding({of(3, 5, "a", {"7.1", 4})})},
                    {});
  CHECK(chosen(more) == "0:c@30,0 1:c@31,1 2:c@30,0 3:c@31,1 ");
}

TEST_CASE("a node that was given a part does not count as one that saves", "[vault]") {
  const origin one{"7.2", 1};
  const origin two{"7.3", 2};
  // Its script saves on node 0 only.
  const auto choice = choose_common(
      {holding({of(0, 20, "b", one), of(0, 30, "c", two)}), holding({of(1, 20, "b", one)})}, {});
  CHECK(choice.savers == std::set<std::uint32_t>{0});
  CHECK(chosen(choice) == "0:c@30,0 ");
}

TEST_CASE("parts of two rounds are not parts of one entry", "[vault]") {
  const origin before{"7.1", 2};
  const origin after{"7.2", 2};
  // The job went back to step 5, and node 0 has saved step 6 again.
  const std::vector<node_word> words = {
      holding({of(0, 5, "step-5", before), of(0, 60, "step-6", after)}),
      holding({of(1, 5, "step-5", before), of(1, 6, "step-6", before)})};
  CHECK(chosen(choose_common(words, {})) == "0:step-5@5,0 1:step-5@5,1 ");
}

TEST_CASE("a node that has never saved is not waited for, one that has is", "[vault]") {
  CHECK(chosen(choose_common({holding({of(0, 10, "a")}), holding({})}, {})) == "0:a@10,0 ");
  const auto lost = choose_common({holding({of(0, 10, "a")}, {0, 1}), holding({})}, {});
  CHECK(lost.parts.empty());
  CHECK(lost.is_any_newer);
  CHECK(lost.savers == std::set<std::uint32_t>{0, 1});
  // One is from a larger world, and belongs to no node of this one.
  CHECK(chosen(choose_common({holding({of(0, 10, "a"), of(7, 10, "b")}, {7}), holding({})}, {})) ==
        "0:a@10,0 ");
  CHECK(choose_common({holding({}), holding({})}, {}).parts.empty());
  CHECK_FALSE(choose_common({holding({}), holding({})}, {}).is_any_newer);
}

TEST_CASE("the word of a node is read back, and nothing else is", "[vault]") {
  node_word word =
      holding({of(0, 1732606339000000000, "step-100"), of(3, 5, "out/a b", {"7319.4", 2})}, {0, 3});
  word.address = "10.0.0.2";
  word.port = 41233;
  word.token = "4f1d";
  word.aside = {{3, {6, "out/a b"}}};
  const std::string text = to_text(word);
  CHECK(parse_word(text) == word);
  CHECK(parse_word(to_text(node_word())) == node_word());
  node_word without;
  without.has_vault = false;
  CHECK(to_text(without) == "ddprun vault 2\nwithout\n");
  CHECK(parse_word(to_text(without)) == without);
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto part = parse_word(std::string_view(text).substr(0, size));
    CHECK((!part || *part != word));
  }
  const std::string first = "ddprun vault 2\n";
  for (const std::string odd : {"aside 0 5 ../a",
                                "aside 0 5",
                                "holds 0 5 0 - ../a",
                                "holds 0 5 0 - /a",
                                "holds 0 -5 0 - a",
                                "holds -1 5 0 - a",
                                "holds 0 5 0 - a\x1b[0m",
                                "holds 0 5 0 - ",
                                "holds 0 5 a",
                                "holds 0 5 0 7.1 a",
                                "holds 0 5 2 - a",
                                "holds 0 5 -2 7.1 a",
                                "holds 0 5 2 A a",
                                "at 70000 a",
                                "at 1 a b",
                                "token a b",
                                "saves x",
                                "more",
                                "without 1",
                                "without\nsaves 0",
                                "saves 0\nwithout",
                                ""}) {
    INFO(odd);
    CHECK_FALSE(parse_word(first + odd + "\n"));
  }
  CHECK_FALSE(parse_word("ddprun vault 1\n"));
  std::string many = first;
  for (std::size_t number = 0; number <= held_max; ++number)
    many += "holds 0 5 0 - a\n";
  CHECK_FALSE(parse_word(many));
  CHECK_FALSE(parse_word(first + "holds 0 5 0 - " + std::string(word_bytes_max, 'a') + "\n"));
}
