#include "launcher/base/write_all.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace ddprun::launcher {

TEST_CASE("all of a text is written, though a pipe takes a part at a time") {
  const auto pipe = make_pipe();
  REQUIRE(pipe.has_value());
  const std::string text(300'000, 'x');
  std::string heard;
  std::thread reader([&] {
    std::array<char, 5'000> piece;
    while (heard.size() < text.size()) {
      const ssize_t count = ::read(pipe->read.get(), piece.data(), piece.size());
      if (count <= 0) return;
      heard.append(piece.data(), static_cast<std::size_t>(count));
    }
  });
  CHECK(write_all(pipe->write.get(), text) == 0);
  reader.join();
  CHECK(heard == text);
}

TEST_CASE("what takes no text says why") {
  const unique_fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full.get() >= 0);
  CHECK(write_all(full.get(), "text") == ENOSPC);
  CHECK(write_all(-1, "text") == EBADF);
  CHECK(write_all(-1, "") == 0);
}

}  // namespace ddprun::launcher
