// Names, amounts and variables that Kubernetes would refuse are refused here, with advice.
#include "launcher/hosts/kubernetes/checked_values.hpp"

#include "tests/support/catch.hpp"

#include <vector>

namespace ddprun::launcher::kubernetes {
namespace {

template <typename T>
std::string refusal_of_value(const cli::parsed<T>& read) {
  return read ? std::string() : read.error().text;
}

}  // namespace

TEST_CASE("names are labels of RFC 1123, and those of Services begin with a letter") {
  const std::string longest(63, 'a');
  for (const std::string& good : std::vector<std::string>{"a", "train-2", "1train", longest})
    CHECK(read_label("--namespace=x", good).has_value());
  for (const std::string& bad : std::vector<std::string>{"", "Train", "a_b", "-a", "a-", "a.b",
                                                         "gr\xc3\xbcn", "a b", longest + 'a'}) {
    CHECK_FALSE(read_label("--namespace=x", bad).has_value());
    CHECK_FALSE(read_service_name("--name=x", bad).has_value());
  }
  CHECK(refusal_of_value(read_service_name("--name=1train", "1train")) ==
        "--name=1train: Kubernetes takes 1 to 63 small letters, digits and '-', which begin with a "
        "letter and do not end with '-'");
}

TEST_CASE("amounts of memory are bytes, and a slip is told with what was meant") {
  for (const std::string good : {"1", "64Gi", "1.5Gi", "500M", "1000k"})
    CHECK(*read_bytes("--memory=x", good) == good);
  CHECK(refusal_of_value(read_bytes("--memory=512m", "512m")) ==
        "--memory=512m: that is 512 thousandths of a byte to Kubernetes; write 512Mi");
  CHECK(refusal_of_value(read_bytes("--shm-size=16g", "16g")) ==
        "--shm-size=16g: not an amount that Kubernetes knows; write 16Gi");
  CHECK(refusal_of_value(read_bytes("--shm-size=16GB", "16GB")) ==
        "--shm-size=16GB: not an amount that Kubernetes knows; write 16Gi");
  CHECK(refusal_of_value(read_bytes("--memory=0Gi", "0Gi")) ==
        "--memory=0Gi: a pod needs at least one byte");
  for (const std::string bad : {"", "Gi", "-1Gi", "1.2.3", "1 Gi", "x", "1Gib", "1e"})
    CHECK_FALSE(read_bytes("--memory=x", bad).has_value());
}

TEST_CASE("amounts of processors may be thousandths") {
  for (const std::string good : {"8", "0.5", "500m"})
    CHECK(*read_processors("--cpu=x", good) == good);
  for (const std::string bad : {"", "0", "0m", "8Gi", "many", "-1", "."})
    CHECK_FALSE(read_processors("--cpu=x", bad).has_value());
}

TEST_CASE("variables have a name and a value, which may be empty or have '=' in it") {
  CHECK(*read_variable("--env=x", "A=b=c") == std::pair<std::string, std::string>("A", "b=c"));
  CHECK(read_variable("--env=x", "A=")->second.empty());
  for (const std::string bad : {"", "A", "=b", "1A=b", "A B=c", "A=\xff"})
    CHECK_FALSE(read_variable("--env=x", bad).has_value());
}

TEST_CASE("what kubelet would expand is written so that it arrives") {
  CHECK(without_expansion("$(HOME)") == "$$(HOME)");
  CHECK(without_expansion("$HOME ${x} 5$ $") == "$HOME ${x} 5$ $");
  CHECK(without_expansion("a$$b") == "a$$$$b");
  CHECK(without_expansion("$$(x)") == "$$$$(x)");
  CHECK(without_expansion("").empty());
}

}  // namespace ddprun::launcher::kubernetes
