// What the tests of the key value store share.
#pragma once

#include "rendezvous/core/store/key_value_store.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::tests {

using core::key_value_store;
using core::store_limits;
using core::wait_outcome;
using ids = std::vector<key_value_store::client_id>;

inline ids take_woken(key_value_store& store) {
  return std::exchange(store.woken(), {});
}

inline std::string text(const core::shared_bytes& value) {
  return value ? *value : "(none)";
}

inline result<wait_outcome> wait(key_value_store& store, key_value_store::client_id client,
                                 std::vector<std::string_view> keys) {
  return store.wait(client, keys);
}

// Checks that the store counts no bytes and no keys, so that nothing was left behind.
inline void check_empty(const key_value_store& store) {
  CHECK(store.bytes_used() == 0);
  CHECK(store.keys_used() == 0);
  CHECK(store.size() == 0);
}

}  // namespace ddprun::tests
