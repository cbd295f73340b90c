// An immutable list that all its copies share: copying it, or comparing it with a copy of itself,
// costs the same however long it is.
//
// Thread rule: plain value; copies may be used on other threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace ddprun {

template <typename Item>
class shared_list {
 public:
  shared_list() = default;
  explicit shared_list(std::vector<Item> items)
      : items_(items.empty() ? nullptr
                             : std::make_shared<const std::vector<Item>>(std::move(items))) {}

  const std::vector<Item>& items() const {
    static const std::vector<Item> none;
    return items_ ? *items_ : none;
  }
  auto begin() const { return items().begin(); }
  auto end() const { return items().end(); }
  std::size_t size() const { return items().size(); }
  bool empty() const { return items().empty(); }

  bool operator==(const shared_list& other) const {
    return items_ == other.items_ || items() == other.items();
  }

 private:
  std::shared_ptr<const std::vector<Item>> items_;  // null: empty
};

}  // namespace ddprun
