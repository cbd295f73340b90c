#include "launcher/warm/site_zip.hpp"

#include "launcher/warm/embedded_python.hpp"
#include "launcher/warm/memory_file.hpp"
#include "rendezvous/base/hex_text.hpp"

#include <boost/crc.hpp>

#include <cstdint>
#include <unistd.h>

namespace ddprun::launcher::warm {
namespace {

void put_number(std::string& to, std::uint64_t value, int bytes) {
  for (int byte = 0; byte < bytes; ++byte)
    to += static_cast<char>(value >> (8 * byte) & 0xff);
}

// The common part of a file's header and its row in the directory: no flags, stored, 1980.
void put_file(std::string& to, const std::string& name, const std::string& text) {
  boost::crc_32_type sum;
  sum.process_bytes(text.data(), text.size());
  put_number(to, 10, 2);  // required version
  put_number(to, 0, 2);
  put_number(to, 0, 2);
  put_number(to, 0, 2);
  put_number(to, 0x21, 2);  // January 1st
  put_number(to, sum.checksum(), 4);
  put_number(to, text.size(), 4);
  put_number(to, text.size(), 4);
  put_number(to, name.size(), 2);
  put_number(to, 0, 2);
}

}  // namespace

std::string zip_of(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string zip;
  std::string directory;
  for (const auto& [name, text] : files) {
    const std::size_t offset = zip.size();
    zip += "PK\x03\x04";
    put_file(zip, name, text);
    zip += name + text;
    directory += "PK\x01\x02";
    put_number(directory, 20, 2);
    put_file(directory, name, text);
    directory.append(10, '\0');  // no comment, first disk, no attributes
    put_number(directory, offset, 4);
    directory += name;
  }
  const std::size_t start = zip.size();
  zip += directory + "PK\x05\x06";
  put_number(zip, 0, 4);
  put_number(zip, files.size(), 2);
  put_number(zip, files.size(), 2);
  put_number(zip, directory.size(), 4);
  put_number(zip, start, 4);
  put_number(zip, 0, 2);
  return zip;
}

std::string path_for_others(const unique_fd& file) {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file.get());
}

std::string python_literal(std::string_view text) {
  return "__import__('os').fsdecode(bytes.fromhex('" + hex_text(text) + "'))";
}

result<unique_fd> make_site_zip(const std::string& call) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const embedded_file& file : embedded_python)
    files.emplace_back(std::string(file.name) + ".py", file.text);
  files.emplace_back("sitecustomize.py", call);
  return make_memory_file("ddprun-site", zip_of(files));
}

std::vector<std::string> with_site_zip(std::vector<std::string> environment,
                                       const std::string& path) {
  constexpr std::string_view name = "PYTHONPATH=";
  for (std::string& entry : environment) {
    if (!entry.starts_with(name)) continue;
    const std::string others = entry.substr(name.size());
    entry = std::string(name) + path + ":" + (others.empty() ? path : others);
    return environment;
  }
  environment.push_back(std::string(name) + path);
  return environment;
}

}  // namespace ddprun::launcher::warm
