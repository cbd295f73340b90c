#include "launcher/evidence/py_spy.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::evidence {

TEST_CASE("the stack of the main thread is read from what py-spy prints") {
  const std::string dump =
      "Process 41: /usr/bin/python3.11 -u train.py\n"
      "Python v3.11.2 (/usr/bin/python3.11)\n\n"
      "Thread 44 (idle): \"Thread-1 (_worker)\"\n"
      "    wait (threading.py:324)\n"
      "Thread 41 (active+gil): \"MainThread\"\n"
      "    _call_impl (torch/nn/modules/module.py:1784)\n"
      "        Arguments:\n"
      "    forward (/data/odd (1)/train.py:88)\n"
      "    <module> (/data/odd (1)/train.py:9)\n"
      "Thread 45 (idle): \"pt_autograd_0\"\n"
      "    run (/other.py:1)\n";
  CHECK(main_stack_of_py_spy(dump) ==
        std::vector<stack_frame>{{"torch/nn/modules/module.py", 1784, "_call_impl"},
                                 {"/data/odd (1)/train.py", 88, "forward"},
                                 {"/data/odd (1)/train.py", 9, "<module>"}});
  for (std::size_t size = 0; size < dump.size(); ++size)
    CHECK(main_stack_of_py_spy(dump.substr(0, size)).size() <= 3);
  CHECK(main_stack_of_py_spy("").empty());
  CHECK(
      main_stack_of_py_spy("Thread 1: \"MainThread\"\n    a (b)\n    a b:1)\n  c (d:1)\n").empty());
  std::string many = "Thread 41 (active): \"MainThread\"\n";
  for (int line = 1; line < 1000; ++line)
    many += "    f (a.py:" + std::to_string(line) + ")\n";
  CHECK(main_stack_of_py_spy(many).size() == frames_max);
}

}  // namespace ddprun::launcher::evidence
