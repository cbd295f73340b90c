#include "launcher/hosts/doctor/python.hpp"

#include "launcher/hosts/doctor/report.hpp"
#include "tests/launcher/hosts/doctor/doctor_support.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun::launcher::doctor;
using namespace ddprun::tests::doctor;

namespace {

python_facts with_torch(const std::string& torch, int driver_cuda) {
  return {"/venv/bin/python", "python3", torch, "", driver_cuda};
}

}  // namespace

TEST_CASE("no Python, and one without PyTorch") {
  CHECK(line_of(judge_python({"", "/venv/bin/python", "", "", 0}), "Python")
            .starts_with("warning: /venv/bin/python is not there: "));
  CHECK(line_of(judge_python(with_torch("", 0)), "Python")
            .starts_with("warning: /venv/bin/python has no PyTorch: "));
}

TEST_CASE("PyTorch's CUDA and the driver's") {
  CHECK(line_of(judge_python(with_torch("2.15.0+cu132", 13000)), "CUDA") ==
        "ok: PyTorch is built for 13.2, the driver knows up to 13.0");
  CHECK(line_of(judge_python(with_torch("2.15.0+cu132", 12080)), "CUDA") ==
        "error: PyTorch is built for 13.2, the driver knows up to 12.8: install a driver for CUDA "
        "13, or a PyTorch that is built for 12");
  CHECK(line_of(judge_python(with_torch("2.15.0+cu132", 0)), "CUDA") == "nothing");
  CHECK(line_of(judge_python(with_torch("2.15.0+cpu", 13000)), "CUDA") == "nothing");
  CHECK(line_of(judge_python(with_torch("2.15.0+cpu", 13000)), "Python") ==
        "ok: /venv/bin/python: PyTorch 2.15.0+cpu");
}

TEST_CASE("lines for people, with the advice below") {
  const findings found = {{"clock", health::ok, "synchronised", ""},
                          {"disk", health::error, "/tmp: 0 KiB free", "make room"}};
  CHECK(to_text(found) ==
        "ok       clock  synchronised\n"
        "error    disk   /tmp: 0 KiB free\n"
        "                > make room\n"
        "1 ok, 0 warnings, 1 error\n");
  CHECK(exit_code_of(found) == 1);
  CHECK(exit_code_of({found.front()}) == 0);
}

TEST_CASE("one object for programs") {
  const findings found = {{"clock", health::ok, "synchronised", ""},
                          {"disk", health::warning, "\xff free", "make room"}};
  const std::string text = to_json(found, "node-7");
  CHECK(text.find(R"({"check":"clock","state":"ok","seen":"synchronised"})") != std::string::npos);
  CHECK(text.find(R"("seen":"\ufffd free","advice":"make room")") == std::string::npos);
  CHECK(text.find("\xef\xbf\xbd free") != std::string::npos);
  CHECK(text.ends_with("\"ok\":1,\"warnings\":1,\"errors\":0}\n"));
}
