// What runs on another host before ddprun does: a few lines of POSIX shell.
//
// The command that ssh is given is as short as can be, and means the same to any login shell (sh,
// csh, fish): it becomes /bin/sh, prints the magic line, and takes the next line of its standard
// input for a script. What a login shell prints before the magic line (a banner, a message of the
// day) is nobody's.
//
// Each line of the script's own begins with the magic word:
//
//   WORD ready ADDRESS...         SSH_CONNECTION: by which address it was reached, from which
//   WORD found PATH               this ddprun is there and is run now
//   WORD missing MACHINE GLIBC    it is not; what could run there. It waits for the next line
//   WORD send PATH                the copy does not exist: the bytes of the files are wanted
//   WORD failed TEXT              no copy can be kept there
//   WORD agent                    ddprun's own: it waits for its order
//   WORD runs                     its command line is right, and its agent begins
//   WORD end CODE WHY             its last word, on standard error (agent_end.hpp)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

// `magic` is of letters, digits and "-".
std::string first_command(const std::string& magic);

// Runs the first of these that is this version, else reads another line and does what it says.
// `also_path`: and the one that PATH has there.
std::string find_script(const std::string& magic, const std::vector<std::string>& paths,
                        bool also_path);

struct sent_file {
  std::string name;  // of letters, digits and "-"
  std::string sha256;
  std::uint64_t bytes = 0;
};

// Runs a copy with these hashes, which is kept in the first folder where programs may run; takes
// the bytes of all files from standard input, one behind the other, if there is none. The first
// file is the one to run.
std::string copy_script(const std::string& magic, const std::vector<sent_file>& files);

// In single quotes, for sh.
std::string quoted(std::string_view text);

}  // namespace ddprun::launcher::ssh
