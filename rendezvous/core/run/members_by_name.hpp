// The members of a round of an earlier daemon by what they are known again (lasting_name), and
// which of them are back: if all are, they had died together, and the same commands were started
// again.
//
// Always: several may have one name, on either side. One whose name is not known never counts as
// back.
#pragma once

#include "rendezvous/base/shared_list.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ddprun::core {

class members_by_name {
 public:
  // Of nobody.
  members_by_name() = default;
  // By group rank; empty, as are those behind the last: not known. None of them is here yet.
  members_by_name(std::uint32_t size, shared_list<std::string> names);

  // A node of that name is a candidate here from now on, or no longer.
  void count(const std::string& name, bool is_here);

  std::uint32_t size() const { return size_; }
  const shared_list<std::string>& names() const { return names_; }
  std::size_t missing() const { return missing_; }
  // If it is known who they are: some names.
  std::vector<std::string> missing_names() const;

 private:
  std::uint32_t size_ = 0;
  shared_list<std::string> names_;
  // How many more members have that name than are here; negative where more are here.
  std::map<std::string, std::int64_t> short_of_;
  std::size_t missing_ = 0;  // also those whose names are not known
};

}  // namespace ddprun::core
