#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "worker/metrics/meter.hpp"
#include "worker/metrics/metrics_file.hpp"
#include "worker/metrics/progress.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace std::chrono_literals;
using namespace ddprun::worker;

struct shown_progress {
  time_point now{};
  std::string text;

  progress begin(bool is_terminal, std::uint64_t total = 100, std::size_t width = 100) {
    progress_options options;
    options.is_terminal = is_terminal;
    options.width = width;
    options.write = [this](std::string_view more) { text += more; };
    options.now = [this] { return now; };
    return progress("epoch 3", total, options);
  }
  std::string take() { return std::exchange(text, ""); }
};

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(nlohmann::json::parse(line, nullptr, false));
  return lines;
}

}  // namespace

TEST_CASE("a meter is weighted", "[metrics]") {
  meter loss;
  CHECK(loss.average() == 0);
  loss.add(2, 3);
  loss.add(4);
  CHECK(loss.average() == 2.5);
  CHECK(loss.last() == 4);
  loss.add(std::numeric_limits<double>::quiet_NaN(), 0);
  CHECK(loss.average() == 2.5);
  loss.reset();
  CHECK(loss.weight() == 0);
}

TEST_CASE("a log gets a line now and then", "[metrics]") {
  shown_progress screen;
  auto shown = screen.begin(false);
  shown.update(1, 64);
  CHECK(screen.take() == "");
  screen.now += 10s;
  shown.update(25, 1600, "loss 0.5");
  CHECK(screen.take() == "epoch 3 | step 25 of 100 | 160 samples/s | 30 s left | loss 0.5\n");
  screen.now += 9999ms;
  shown.update(50, 3200);
  CHECK(screen.take() == "");
  screen.now += 1ms;
  shown.update(51, 3264);
  CHECK(screen.take() == "epoch 3 | step 51 of 100 | 163 samples/s | 19 s left\n");
  shown.update(100, 6400);
  shown.finish("loss 0.4 | acc 0.9");
  CHECK(screen.take() == "epoch 3 | 320 samples/s | loss 0.4 | acc 0.9\n");
}

TEST_CASE("a terminal gets a bar that is redrawn in place", "[metrics]") {
  shown_progress screen;
  auto shown = screen.begin(true);
  shown.update(0, 0);
  CHECK(screen.take() == "\r\033[Kepoch 3 [>.............................]   0 %");
  screen.now += 99ms;
  shown.update(1, 64);
  CHECK(screen.take() == "");
  screen.now += 1901ms;
  shown.update(50, 6, "loss 0.5");
  CHECK(screen.take() ==
        "\r\033[Kepoch 3 [===============>..............]  50 % | 3.00 samples/s | 2 s left | loss "
        "0.5");
  screen.now += 1s;
  shown.update(100, 3200);
  CHECK(screen.take() == "\r\033[Kepoch 3 [==============================] 100 % | 1067 samples/s");
  shown.finish();
  CHECK(screen.take() == "\r\033[Kepoch 3 | 1067 samples/s\n");
}

TEST_CASE("a bar never wraps, and does not need a total", "[metrics]") {
  shown_progress screen;
  auto narrow = screen.begin(true, 100, 20);
  narrow.update(50, 1, "a text that is too long for it");
  CHECK(screen.take() == "\r\033[Kepoch 3 [==========");
  auto endless = screen.begin(true, 0);
  endless.update(7, 0);
  CHECK(screen.take() == "\r\033[Kepoch 3 | step 7");
  auto beyond = screen.begin(true, 10);
  beyond.update(20, 0);
  CHECK(screen.take() == "\r\033[Kepoch 3 [==============================] 100 %");
  screen.now += 1000h;
  auto long_one = screen.begin(false, 1000);
  screen.now += 10h;
  long_one.update(1, 0);
  CHECK(screen.take() == "epoch 3 | step 1 of 1000 | 9990 h left\n");
}

TEST_CASE("a line that was cut off by a full disk is not joined with the next one", "[metrics]") {
  const tests::temporary_folder place;
  const std::string path = place.path + "/metrics.jsonl";
  auto file = metrics_file::open(path, environment(), 0);
  REQUIRE(file.has_value());
  // A limit on file sizes stands in for a full disk: a write beyond it is cut short, the next
  // fails.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto* const handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{std::filesystem::file_size(path) + 10, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  const auto error = file->write(1, 6, {{"loss", 2.25}});
  const auto again = file->write(1, 7, {{"loss", 2.25}});
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  CHECK(error == system_error(EFBIG));
  CHECK(again == system_error(EFBIG));
  CHECK_FALSE(file->write(1, 8, {{"loss", 2.25}}));
  std::vector<std::string> lines;
  std::ifstream written(path);
  for (std::string line; std::getline(written, line);)
    lines.push_back(line);
  REQUIRE(lines.size() == 3);
  CHECK(lines[1].size() == 10);
  CHECK(nlohmann::json::parse(lines[2])["step"] == 8);
}

TEST_CASE("a metrics file continues over restarts, with one object for each line", "[metrics]") {
  const tests::temporary_folder place;
  const std::string path = place.path + "/metrics.jsonl";
  environment here;
  here.world_size = 4;
  {
    auto file = metrics_file::open(path, here, 0);
    REQUIRE(file.has_value());
    CHECK_FALSE(file->write(1, 6, {{"loss", 2.25}, {"nothing", 1.0 / 0.0}}));
  }
  std::ofstream(path, std::ios::app) << "{\"time\":17";  // a line that was cut off by a kill
  here.round = 2;
  here.restart_count = 1;
  auto again = metrics_file::open(path, here, 6);
  REQUIRE(again.has_value());
  CHECK_FALSE(again->write(2, 12, {}));
  const auto lines = lines_of(path);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0]["event"] == "start");
  CHECK(lines[0]["world_size"] == 4);
  CHECK(lines[1]["loss"] == 2.25);
  CHECK(lines[1]["nothing"].is_null());
  CHECK(lines[1]["time"].get<double>() > 1e9);
  CHECK(lines[2].is_discarded());
  CHECK(lines[3]["restart"] == 1);
  CHECK(lines[3]["round"] == 2);
  CHECK(lines[3]["step"] == 6);
  CHECK(lines[4]["epoch"] == 2);
  CHECK(metrics_file::open(place.path, here, 0).error() == system_error(EISDIR));
}

}  // namespace ddprun::tests
