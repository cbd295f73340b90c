"""tests/support/check_hiding.py: which functions and constants would be mistaken for others."""

import subprocess
import sys
from pathlib import Path

CHECK = Path(__file__).resolve().parents[1] / "support/check_hiding.py"
HEADER = """
namespace ddprun {
std::string_view first_of(std::string_view text, std::size_t bytes_max);
class other {
  void apply(int);
};
}  // namespace ddprun
"""
CONSTANTS = """
namespace ddprun {
inline constexpr std::size_t line_bytes_max = 64 * 1024;
struct limits {
  const int depth = 3;
};
}  // namespace ddprun
"""
OWN_CONSTANT = """
namespace ddprun::launcher {
namespace {

constexpr std::array<const char*, 2> NAME =
    {"a", "b"};

}  // namespace
}  // namespace ddprun::launcher
"""
OWN = """
namespace ddprun::launcher {
namespace {

std::vector<std::string> NAME(const std::filesystem::path& file,
                              int lines) {
  return {};
}

}  // namespace
}  // namespace ddprun::launcher
"""


def found(tmp_path, **files):
    for name, text in {"base.hpp": HEADER, **files}.items():
        file = tmp_path / "launcher/agent" / name.replace("_cpp", ".cpp")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    run = subprocess.run([sys.executable, CHECK, tmp_path], text=True, check=False,
                         stdout=subprocess.PIPE)
    *lines, _ = run.stdout.splitlines()
    assert run.returncode == (1 if lines else 0)
    return lines


def test_a_function_of_an_enclosing_namespace(tmp_path):
    assert found(tmp_path, a_cpp=OWN.replace("NAME", "first_of")) == [
        "launcher/agent/a.cpp:5: first_of() is this file's own and hides ddprun::first_of() of "
        "launcher/agent/base.hpp: rename it"]


def test_a_neighbours_own(tmp_path):
    own = OWN.replace("NAME", "lines_of")
    assert found(tmp_path, a_cpp=own, b_cpp=own) == [
        "launcher/agent/b.cpp:5: lines_of() is launcher/agent/a.cpp's own, too: rename one of them"]


def test_what_hides_nothing(tmp_path):
    elsewhere = OWN.replace("NAME", "first_of").replace("ddprun::launcher", "other")
    for_all = OWN.replace("NAME", "first_of").replace("namespace {", "").replace(
        "}  // namespace\n", "", 1)
    member = OWN.replace("NAME", "agent::first_of")
    method = OWN.replace("NAME", "apply")
    assert not found(tmp_path, a_cpp=elsewhere, b_cpp=for_all, c_cpp=member, d_cpp=method)


def test_a_constant_of_an_enclosing_namespace(tmp_path):
    assert found(tmp_path, **{"limits.hpp": CONSTANTS},
                 a_cpp=OWN_CONSTANT.replace("NAME", "line_bytes_max")) == [
        "launcher/agent/a.cpp:5: line_bytes_max is this file's own and hides "
        "ddprun::line_bytes_max of launcher/agent/limits.hpp: rename it"]


def test_a_neighbours_own_constant(tmp_path):
    own = OWN_CONSTANT.replace("NAME", "words")
    text = OWN_CONSTANT.replace("constexpr std::array<const char*, 2> NAME =", "const text words{")
    assert found(tmp_path, a_cpp=own, b_cpp=text) == [
        "launcher/agent/b.cpp:5: words is launcher/agent/a.cpp's own, too: rename one of them"]


def test_what_no_constant_hides(tmp_path):
    member = OWN_CONSTANT.replace("NAME", "depth")
    local = "namespace ddprun {\nvoid run() {\n  const int line_bytes_max = 3;\n}\n}\n"
    assert not found(tmp_path, **{"limits.hpp": CONSTANTS}, a_cpp=member, b_cpp=local)
