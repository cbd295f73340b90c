#include "launcher/hosts/ssh/agent_end.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher::ssh;

TEST_CASE("how an agent has ended is read as it was written, and nothing else is") {
  using core::leave_reason;
  for (const agent_end& end :
       {agent_end{0, leave_reason::run_over}, agent_end{143, leave_reason::drained},
        agent_end{78, leave_reason::refused}, agent_end{69, leave_reason::unmet}}) {
    CHECK(read_agent_end(agent_end_text(end)) == end);
  }
  CHECK(agent_end_text(agent_end{143, leave_reason::run_over}) == "143 over");
  for (const char* const text : {"", "0", "x over", "0 well", "0 over again", "0  over", "over 0"})
    CHECK_FALSE(read_agent_end(text));
}
