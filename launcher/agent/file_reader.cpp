#include "launcher/agent/file_reader.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {
namespace {

// A program may have left anything under that name: a FIFO or a device must not block us.
std::string requested_content(const file_reader::request& what) {
  const unique_fd file(::open(what.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat facts {};
  if (file.get() < 0 || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
  if (what.is_removed) ::unlink(what.path.c_str());
  if (facts.st_size <= 0 || static_cast<std::size_t>(facts.st_size) > what.bytes_max) return {};
  std::string content(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (got <= 0) return {};
    filled += static_cast<std::size_t>(got);
  }
  return content;
}

}  // namespace

void file_reader::read(const request& what, handler done) {
  const auto one = readings_.emplace(readings_.end(), executor_);
  one->done = std::move(done);
  one->timer.expires_after(what.limit);
  one->timer.async_wait(while_alive(one->alive.watch(), [this, one](boost::system::error_code e) {
    if (!e) end(one, {});
  }));
  one->work.start([what] { return requested_content(what); },
                  [this, one](std::optional<std::string> content) {
                    end(one, content.value_or(std::string()));
                  });
}

void file_reader::end(std::list<reading>::iterator one, const std::string& content) {
  const handler done = std::move(one->done);
  readings_.erase(one);
  done(content);
}

}  // namespace ddprun::launcher
