// What Python prints when an exception ends it, and what gloo raises when a peer is gone.
#pragma once

#include <string>

namespace ddprun::tests {

inline std::string raised(const std::string& error) {
  return "Traceback (most recent call last):\n  File \"/data/train.py\", line 7, in <module>\n"
         "    step()\n" +
         error + "\n";
}

inline constexpr const char* peer_gone =
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer "
    "[127.0.0.1]:53410";

}  // namespace ddprun::tests
