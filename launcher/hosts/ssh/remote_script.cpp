#include "launcher/hosts/ssh/remote_script.hpp"

#include "rendezvous/base/version.hpp"

namespace ddprun::launcher::ssh {
namespace {

// The end of each script, when $p is a program that runs there.
std::string run_found(const std::string& magic) {
  return "{ echo " + magic + " found \"$p\"; exec \"$p\" --ddprun-ordered " + magic + "; }; ";
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string safe = "'";
  for (const char c : text) {
    if (c == '\'') {
      safe += "'\\''";
    } else {
      safe += c;
    }
  }
  return safe + "'";
}

// For any login shell: no "!" (csh), no backslash (fish), no quote within quotes. The first echo
// ends a banner without a newline.
std::string first_command(const std::string& magic) {
  return "exec /bin/sh -c 'echo; echo " + magic +
         " ready $SSH_CONNECTION; IFS= read -r s && eval \"$s\"'";
}

std::string find_script(const std::string& magic, const std::vector<std::string>& paths,
                        bool also_path) {
  std::string script = "for p in";
  for (const std::string& path : paths)
    script += " " + quoted(path);
  // An empty entry stands for the search in PATH, which needs a process and is done only if the
  // other paths fail.
  if (also_path) script += " ''";
  script += "; do ";
  if (also_path) script += "[ -n \"$p\" ] || p=$(command -v ddprun 2>/dev/null); ";
  script += "[ -x \"$p\" ] && [ \"$(\"$p\" --version 2>/dev/null </dev/null)\" = " +
            quoted("ddprun " + std::string(version)) + " ] && " + run_found(magic) + "done; ";
  return script + "echo " + magic +
         " missing \"$(uname -m)\" \"$(getconf GNU_LIBC_VERSION 2>/dev/null)\"; "
         "IFS= read -r s && eval \"$s\"\n";
}

namespace {

// A test that is true if all files in `folder` have the right hashes.
std::string sums_are_right(const std::string& folder, const std::vector<sent_file>& files) {
  std::string test;
  for (const sent_file& each : files) {
    test += (test.empty() ? "" : " && ") + ("[ \"$(sum \"" + folder + "/" + each.name) +
            "\")\" = " + each.sha256 + " ]";
  }
  return test;
}

}  // namespace

// Where others may write beside the folder (/var/tmp), it has the user's number and is for this
// user alone. The script tries whether programs may run there.
//
// An incomplete copy never gets the final name. The shell's traps delete it, also when the head is
// gone and the next word raises SIGPIPE.
//
// The umask is only for the folder and is restored, because workers' files are to have the login's.
std::string copy_script(const std::string& magic, const std::vector<sent_file>& files) {
  const sent_file& own = files.front();
  const std::string name = "ddprun-" + std::string(version) + "-" + own.sha256.substr(0, 16);
  std::string take;
  for (const sent_file& each : files)
    take += "head -c " + std::to_string(each.bytes) + " > \"$t/" + each.name + "\"; ";
  const std::string run = "umask \"$m\" && " + run_found(magic);
  return "m=$(umask); umask 077; u=$(id -u); "
         "sum() { sha256sum \"$1\" 2>/dev/null | cut -c1-64; }; "
         "for d in \"${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/ddprun}\" "
         "\"${HOME:+$HOME/.cache/ddprun}\" "
         "\"/var/tmp/ddprun-$u\" \"/dev/shm/ddprun-$u\"; do "
         "[ -n \"$d\" ] || continue; mkdir -p \"$d\" 2>/dev/null; "
         "[ -O \"$d\" ] && [ -w \"$d\" ] || { no=\"$no $d (cannot be written)\"; continue; }; "
         "t=\"$d/try.$$\"; printf \"#!/bin/sh\\nexit 0\\n\" > \"$t\" && chmod 700 \"$t\"; "
         "if \"$t\" 2>/dev/null; then rm -f \"$t\"; else rm -f \"$t\"; "
         "no=\"$no $d (no program may run there)\"; continue; fi; "
         "f=\"$d/" +
         name + "\"; p=\"$f/" + own.name + "\"; " + sums_are_right("$f", files) + " && " + run +
         "t=\"$f.$$\"; trap \"rm -rf '$t'\" EXIT; trap \"exit 1\" HUP INT PIPE TERM; mkdir -p "
         "\"$f\" \"$t\"; echo " +
         magic + " send \"$p\"; " + take + "if " + sums_are_right("$t", files) +
         "; then chmod 700 \"$t\"/* && mv -f \"$t\"/* \"$f\" && rmdir \"$t\" && trap - EXIT && " +
         run + "fi; echo " + magic +
         " failed what has arrived in \"$d\" is not what was sent; exit 1; "
         "done; echo " +
         magic + " failed no folder can keep a program:\"$no\"; exit 1\n";
}

}  // namespace ddprun::launcher::ssh
