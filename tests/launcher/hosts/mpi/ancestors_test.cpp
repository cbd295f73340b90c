// The ancestors of this process, and the command line that has started an MPI job.
#include "launcher/hosts/mpi/ancestors.hpp"

#include "launcher/hosts/mpi/front_end.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>

namespace ddprun::launcher::hosts::mpi {
namespace {

struct fake_proc {
  // With PID 0, the file is that of self.
  void add(int pid, const std::string& name, int parent, const std::string& arguments = {}) {
    const std::string own = pid == 0 ? "self" : std::to_string(pid);
    std::filesystem::create_directory(folder.path + "/" + own);
    folder.file(own + "/stat", "7 (" + name + ") S " + std::to_string(parent) + " 1 1 0", 0600);
    folder.file(own + "/cmdline", arguments, 0600);
  }
  tests::temporary_folder folder;
};

ancestors started_by(std::vector<std::string> line) {
  const std::string name = line.front();
  return {{1, "orted", {}}, {2, name, std::move(line)}};
}

}  // namespace

TEST_CASE("mpi: ancestors are the parent and those above it, as far as they are seen") {
  fake_proc proc;
  proc.add(0, "ddprun", 30);
  proc.add(30, "a (b) c", 20, std::string("sh\0-c\0x y\0", 10));
  proc.add(20, "hydra_pmi_proxy", 10);
  const ancestors above = own_ancestors(proc.folder.path);
  REQUIRE(above.size() == 2);
  CHECK(above[0].name == "a (b) c");
  CHECK(above[0].arguments == std::vector<std::string>{"sh", "-c", "x y"});
  CHECK(above[1].pid == 20);
  CHECK(is_named(above[1], "hydra_pmi_proxy"));
}

TEST_CASE("mpi: a long name is known by what the kernel keeps of it") {
  CHECK(is_named({1, "hydra_bstrap_pr", {}}, "hydra_bstrap_proxy"));
  CHECK_FALSE(is_named({1, "mpirun", {}}, "mpirun.openmpi"));
}

TEST_CASE("mpi: without /proc there are no ancestors") {
  tests::temporary_folder empty;
  CHECK(own_ancestors(empty.path).empty());
}

TEST_CASE("mpi: tags are seen in OpenMPI 4's variable, and in a command line above") {
  CHECK(tags_lines({{"OMPI_MCA_orte_tag_output", "1"}}, {}));
  CHECK_FALSE(tags_lines({{"OMPI_MCA_orte_tag_output", "0"}}, {}));
  CHECK_FALSE(tags_lines({}, {}));
  CHECK(tags_lines({}, started_by({"mpiexec.hydra", "-prepend-rank", "ddprun"})));
  CHECK(tags_lines({}, started_by({"mpiexec", "-l", "-n", "2", "/opt/bin/ddprun", "a.py"})));
  CHECK(tags_lines({}, started_by({"prterun", "--output", "tag", "ddprun"})));
  CHECK(tags_lines({}, started_by({"mpirun", "--output=tag-detailed", "ddprun"})));
  CHECK_FALSE(tags_lines({}, started_by({"prterun", "--output", "timestamp", "ddprun"})));
}

TEST_CASE("mpi: what follows ddprun on the launcher's command line is not the launcher's") {
  CHECK_FALSE(tags_lines({}, started_by({"mpiexec", "-n", "2", "ddprun", "a.py", "-l"})));
  CHECK(options_of({1, "mpirun", {"mpirun", "-np", "2", "ddprun", "-x"}}) ==
        std::vector<std::string>{"-np", "2"});
  CHECK(options_of({1, "mpirun", {}}).empty());
}

}  // namespace ddprun::launcher::hosts::mpi
