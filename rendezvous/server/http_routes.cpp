#include "rendezvous/server/http_routes.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace ddprun::server {
namespace {

// The parts of "/api/v1/runs/job%201?offset=100&limit=20".
struct question {
  std::string_view path;
  std::string_view rest;  // of the path, after the route's own
  std::size_t offset = 0;
  std::size_t limit = members_per_page;
  std::string problem;  // with the query; empty: none
};

struct route {
  std::string_view path;  // if it ends with "/", all paths that begin with it
  bool is_costly;
  http_answer (*answer)(const question& asked, const http_views& views);
};

http_answer health(const question&, const http_views& views) {
  const std::string problem = views.problem ? views.problem() : std::string();
  return {200, false, problem.empty() ? "ok\n" : "ok, but kept in memory only: " + problem + "\n"};
}

http_answer all_runs(const question& asked, const http_views& views) {
  return {200, true, runs_json(views.runs(asked.offset))};
}

http_answer one_run(const question& asked, const http_views& views) {
  const auto run = views.run(from_url(asked.rest), asked.offset, asked.limit);
  if (!run) return {404, false, "there is no such run; " + std::string(runs_path) + " lists all\n"};
  return {200, true, run_json(*run, asked.offset)};
}

constexpr route routes[] = {
    {"/healthz", false, health},
    {runs_path, true, all_runs},
    {"/api/v1/runs/", true, one_run},
};

const route* route_of(std::string_view path) {
  for (const route& one : routes) {
    const bool is_here = one.path.ends_with('/') ? path.starts_with(one.path) : path == one.path;
    if (is_here) return &one;
  }
  return nullptr;
}

std::string not_found() {
  std::string text;
  for (const route& one : routes) {
    if (one.path.ends_with('/')) continue;
    text += (text.empty() ? "not found; there are " : " and ") + std::string(one.path);
  }
  return text + "\n";
}

void read_parameter(std::string_view text, question& asked) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string_view name = text.substr(0, equals);
  std::size_t* const field = name == "offset"  ? &asked.offset
                             : name == "limit" ? &asked.limit
                                               : nullptr;
  if (field == nullptr) return;  // unknown parameters are ignored
  const std::string_view value = text.substr(std::min(equals + 1, text.size()));
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *field);
  if (value.empty() || error != std::errc() || end != value.data() + value.size()) {
    asked.problem = std::string(name) + " is not a number";
  }
}

std::string_view path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

question read(std::string_view target) {
  question asked;
  asked.path = path_of(target);
  std::string_view query = target.substr(std::min(asked.path.size() + 1, target.size()));
  while (!query.empty()) {
    const std::size_t size = std::min(query.find('&'), query.size());
    read_parameter(query.substr(0, size), asked);
    query.remove_prefix(std::min(size + 1, query.size()));
  }
  return asked;
}

}  // namespace

http_answer answer_to(std::string_view target, bool is_read, const http_views& views) {
  question asked = read(target);
  const route* const where = route_of(asked.path);
  if (where == nullptr) return {404, false, not_found()};
  if (!is_read) return {405, false, "only GET and HEAD are served here\n"};
  if (!asked.problem.empty()) return {400, false, asked.problem + "\n"};
  asked.rest = asked.path.substr(where->path.size());
  return where->answer(asked, views);
}

bool is_costly(std::string_view target) {
  const route* const where = route_of(path_of(target));
  return where != nullptr && where->is_costly;
}

}  // namespace ddprun::server
