#include "examples/07_resnet_synthetic/arguments.hpp"

#include "examples/common/example_command_line.hpp"

namespace resnet_synthetic {

arguments parse_arguments(int count, char** values) {
  arguments made;
  examples::command_line line("resnet_synthetic",
                              "Trains a ResNet on images that it makes itself, on all ranks.");
  line.one_of("--arch", made.built, architectures, "which one");
  line.number("--epochs", made.epochs, "how often each image is seen", 1);
  line.number("--batch-size", made.batch_size, "images of each rank in a step", 1);
  line.number("--images", made.images, "in an epoch, on all ranks", 1);
  line.number("--test-images", made.test_images, "after each epoch, on all ranks", 1);
  line.number("--image-size", made.image_size, "pixels; ImageNet's are 224", 32);
  line.number("--classes", made.classes, "kinds of images; ImageNet has 1000", 5);
  line.fraction("--lr", made.learning_rate,
                "at first; a tenth of it after each third of the epochs");
  line.fraction("--momentum", made.momentum, "of SGD");
  line.fraction("--weight-decay", made.weight_decay, "of SGD");
  line.number("--print-freq", made.print_interval, "steps from one line to the next", 1);
  line.number("--workers", made.workers,
              "threads of each rank that load images; 0: the one that trains does", 0);
  line.number("--seed", made.seed, "decides the first weights and every shuffle");
  line.text("--resume", made.resume,
            "a folder of all nodes: saved there after each epoch, and gone on from");
  line.place(made.place);
  line.parse(count, values);
  return made;
}

}  // namespace resnet_synthetic
