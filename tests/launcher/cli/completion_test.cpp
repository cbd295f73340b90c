#include "launcher/cli/completion.hpp"

#include "launcher/cli/option_table.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun::launcher;

// tests/cluster/test_arguments.py tries the scripts in a real bash.
TEST_CASE("completions name every option that works, and no other") {
  for (const std::string& script :
       {bash_completion(launcher_command()), zsh_completion(launcher_command())}) {
    for (const ddprun::cli::option_spec* option : launcher_command().options) {
      INFO(option->name);
      const std::string name = "--" + std::string(option->name);
      const bool is_there = script.find(name + " ") != std::string::npos ||
                            script.find(name + "\"") != std::string::npos ||
                            script.find(name + "[") != std::string::npos ||
                            script.find(name + "=[") != std::string::npos;
      CHECK(is_there == !option->help.empty());
    }
  }
}

TEST_CASE("completions have the words that an option takes") {
  const std::string bash = bash_completion(launcher_command());
  CHECK(bash.find("--embed-daemon) COMPREPLY=($(compgen -W \"auto always never\"") !=
        std::string::npos);
  CHECK(bash.find("--nproc-per-node) COMPREPLY=($(compgen -W \"auto cpu gpu xpu\"") !=
        std::string::npos);
  CHECK(bash.find("--log-dir) COMPREPLY=($(compgen -d") != std::string::npos);
  const std::string zsh = zsh_completion(launcher_command());
  CHECK(zsh.starts_with("#compdef ddprun\n"));
  CHECK(zsh.find("'--embed-daemon=[run the daemon in this process; auto\\: if the endpoint is this "
                 "host]:value:(auto always never)'") != std::string::npos);
  CHECK(zsh.find("'--standalone[") != std::string::npos);
}
