#include "examples/01_snapshot_resume/arguments.hpp"

#include "examples/common/example_command_line.hpp"

#include <cstdlib>

namespace snapshot_resume {

arguments parse_arguments(int count, char** values) {
  arguments made;
  made.loop.epochs = 50;
  made.loop.save.epochs = 10;
  made.loop.batch_size = 64;
  made.loop.folder = "snapshots";
  const char* const data = std::getenv("DDPRUN_DIGITS");
  made.data = data != nullptr && *data != '\0' ? data : ".cache/digits.csv";
  examples::command_line line(
      "snapshot_resume",
      "Trains a small convolutional network on 8x8 handwritten digits, on as many ranks as there "
      "are, and goes on from its newest snapshot when it is started again.");
  line.number("EPOCHS", made.loop.epochs, "epochs in all", 1);
  line.number("SNAPSHOT_INTERVAL", made.loop.save.epochs, "epochs between two snapshots", 1);
  line.number("--vault-steps", made.loop.save.vault_steps,
              "steps between two snapshots in memory, with ddprun --vault; 0: none");
  line.text("--data", made.data, "the digits; $DDPRUN_DIGITS says it too");
  line.text("--snapshot-dir", made.loop.folder, "where snapshots are kept; the same for all nodes");
  line.text("--metrics", made.loop.metrics,
            "loss, accuracy and speed of each epoch, for examples/plot_metrics.py");
  line.number("--batch-size", made.loop.batch_size, "samples of each rank in a step", 1);
  line.number("--seed", made.loop.seed, "decides the first weights and every shuffle");
  line.flag("--tell-samples", made.tells_samples, "say of each step which pictures it takes");
  line.place(made.place);
  line.parse(count, values);
  return made;
}

}  // namespace snapshot_resume
