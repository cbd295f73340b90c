// What runs on another host before ddprun does: a few lines of POSIX shell.
//
// The command for ssh is as short as possible and means the same to any login shell (sh, csh,
// fish): it becomes /bin/sh, prints the magic line, and runs the next line of its standard input as
// a script. Whatever a login shell prints before the magic line (a banner, a message of the day) is
// ignored.
//
// Each line of the script begins with the magic word:
//
//   WORD ready ADDRESS...         SSH_CONNECTION: the two addresses of the connection
//   WORD found PATH               this ddprun is there and is run now
//   WORD missing MACHINE GLIBC    it is not; the host's kind. Waits for the next line
//   WORD send PATH                the copy does not exist: the bytes of the files are wanted
//   WORD failed TEXT              no copy can be kept there
//   WORD agent                    from ddprun: it waits for its order
//   WORD runs                     its command line is right, and its agent begins
//   WORD end CODE WHY             its last word, on standard error (agent_end.hpp)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

// `magic` consists of letters, digits and "-".
std::string first_command(const std::string& magic);

// Runs the first of these paths that is this version, else runs another line of standard input.
// `also_path`: also looks for ddprun in PATH there.
std::string find_script(const std::string& magic, const std::vector<std::string>& paths,
                        bool also_path);

struct sent_file {
  std::string name;  // letters, digits and "-"
  std::string sha256;
  std::uint64_t bytes = 0;
};

// Runs a copy with these hashes from the first folder where programs may run. If there is none,
// takes the bytes of all files from standard input, one file after the other. The first file is the
// one to run.
std::string copy_script(const std::string& magic, const std::vector<sent_file>& files);

// Puts the text into single quotes, for sh.
std::string quoted(std::string_view text);

}  // namespace ddprun::launcher::ssh
