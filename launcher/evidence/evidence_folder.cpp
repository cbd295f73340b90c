#include "launcher/evidence/evidence_folder.hpp"

#include "launcher/base/write_all.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

void add_part(std::string& to, const std::string& title, const std::string& text) {
  if (text.empty()) return;
  to += "\n== " + title + "\n" + text;
  if (text.back() != '\n') to += '\n';
}

std::string text_of_rank(const rank_evidence& one) {
  std::string text = "rank " + std::to_string(one.rank) + " (local rank " +
                     std::to_string(one.local_rank) + "), process " + std::to_string(one.pid) +
                     "\n";
  if (!one.end.empty()) text += one.end + "\n";
  const bool was_looked_at = one.end.empty() || one.state != '?';
  if (was_looked_at) {
    text += std::string("state ") + one.state;
    if (!one.wait_channel.empty()) text += ", in the kernel's " + one.wait_channel;
    if (!one.awaited_file.empty()) text += ", for " + one.awaited_file;
    text += '\n';
  }
  if (one.step) text += "step " + std::to_string(one.step->number) + ", as it reported\n";
  if (was_looked_at && one.stacks.empty()) {
    text +=
        one.is_asked ? "it gave no stacks in time\n" : "it cannot be asked for stacks of Python\n";
  }
  add_part(text, "threads of Python, the innermost call first", one.stacks);
  if (one.record)
    add_part(text, "collectives, as PyTorch has noted them",
             text_of(*one.record, one.looked_at_ns));
  add_part(text, "in the kernel", one.kernel_stack);
  add_part(text, "the end of its standard output", one.output_tail);
  add_part(text, "the end of its standard error", one.errors_tail);
  return text;
}

// Returns 0 or errno.
int write_file(int folder, const std::string& name, const std::string& text) {
  const unique_fd file(
      ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file) return errno;
  return write_all(file.get(), text);
}

}  // namespace

std::string write_evidence(const std::string& folder, const node_evidence& seen) {
  const auto problem = [&folder](int error) {
    return "cannot save the evidence in " + folder + ": " + std::strerror(error);
  };
  const std::size_t slash = folder.rfind('/');
  const std::string above = slash == std::string::npos ? "." : folder.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? folder : folder.substr(slash + 1);
  const unique_fd parent(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent) return problem(errno);
  if (::mkdirat(parent.get(), name.c_str(), 0777) != 0) return problem(errno);
  const unique_fd made(
      ::openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made) return problem(errno);
  for (const rank_evidence& one : seen.ranks) {
    const int error =
        write_file(made.get(), "rank_" + std::to_string(one.rank) + ".txt", text_of_rank(one));
    if (error != 0) return problem(error);
  }
  std::string node = sentence_of(seen);
  if (!node.empty()) node += '\n';
  add_part(node, "memory", seen.memory);
  std::string lines;
  for (const std::string& line : seen.kernel)
    lines += line + "\n";
  add_part(node, "NCCL's status (RAS)", seen.nccl);
  add_part(node, "the kernel's log since the round began", lines);
  const int error = write_file(made.get(), "node.txt", node);
  return error == 0 ? "" : problem(error);
}

}  // namespace ddprun::launcher::evidence
