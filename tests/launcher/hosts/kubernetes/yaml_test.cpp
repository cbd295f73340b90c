// Text written as YAML is read back unchanged; tests/cluster/test_kubernetes.py uses a real reader.
#include "launcher/hosts/kubernetes/yaml.hpp"

#include "tests/support/catch.hpp"

namespace ddprun::launcher::kubernetes {

TEST_CASE("a text stands as it is only where no reader of YAML takes it for something else") {
  for (const char* const plain :
       {"train.py", "--nnodes=2:4", "/data/x,y", "a@b", "None", "v1", "batch.kubernetes.io/job"}) {
    CHECK(yaml_text(plain) == plain);
  }
  for (const char* const other :
       {"",   "yes", "No",  "TRUE", "null", "y",    "8",  "0x10", "1e3", "2026-11-25",
        "-x", "--",  "- a", "~",    "a b",  "a: b", "a:", "a #b", "*x",  "&x",
        "!x", "{a}", "[a]", "|",    ">",    "%x",   "'",  "`"}) {
    CHECK(yaml_text(other) == '"' + std::string(other) + '"');
  }
}

TEST_CASE("quotes, line ends and what cannot be seen are escaped as in JSON") {
  CHECK(yaml_text("say \"a\\b\"") == R"("say \"a\\b\"")");
  CHECK(yaml_text("a\nb\tc\rd") == "\"a\\nb\\tc\\u000dd\"");
  CHECK(yaml_text(std::string("\0\x7f", 2)) == "\"\\u0000\\u007f\"");
  CHECK(yaml_text("\xc2\x85 \xe2\x80\xa8 \xef\xbb\xbf") == "\"\\u0085 \\u2028 \\ufeff\"");
  CHECK(yaml_text("gr\xc3\xbc\xc3\x9f") == "\"gr\xc3\xbc\xc3\x9f\"");
}

TEST_CASE("mappings, lists and comments stand below each other") {
  yaml_writer yaml;
  yaml.comment("one\ntwo");
  yaml.entry("kind", "Job");
  yaml.group("spec", [&] {
    yaml.truth("suspend", false);
    yaml.nothing("torch");
    yaml.group("rules", [&] {
      yaml.comment("why");
      yaml.item([&] {
        yaml.entry("action", "Ignore");
        yaml.group("values", [&] {
          yaml.item(std::int64_t{69});
          yaml.item("-x");
        });
      });
      yaml.item([&] { yaml.group("env", [&] { yaml.entry("count", std::int64_t{3}); }); });
    });
  });
  yaml.document();
  yaml.entry("kind", "Pod");
  CHECK(yaml.text() == R"(# one
# two
kind: Job
spec:
  suspend: false
  torch: {}
  rules:
    # why
    - action: Ignore
      values:
        - 69
        - "-x"
    - env:
        count: 3
---
kind: Pod
)");
}

}  // namespace ddprun::launcher::kubernetes
