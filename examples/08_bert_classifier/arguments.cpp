#include "examples/08_bert_classifier/arguments.hpp"

#include "examples/common/example_command_line.hpp"

namespace bert_classifier {

arguments parse_arguments(int count, char** values) {
  arguments made;
  examples::command_line line("bert_classifier",
                              "Trains a BERT encoder, on all ranks, to tell texts apart.");
  line.one_of("--size", made.size, sizes, "of the encoder");
  line.text("--data", made.data,
            "a folder of texts; a file's class is its name up to the first - or .");
  line.number("--epochs", made.epochs, "how often each sample is seen", 1);
  line.number("--batch-size", made.batch_size, "samples of each rank in a pass", 1);
  line.number("--accumulate", made.accumulate, "passes for one step of the optimizer", 1);
  line.number("--length", made.length, "tokens of a sample, the first of them [CLS]", 9);
  line.number("--vocabulary", made.vocabulary, "tokens; rarer words are [UNK]", 4);
  line.fraction("--lr", made.learning_rate, "AdamW's, at the end of the warm-up");
  line.fraction("--weight-decay", made.weight_decay, "of all but biases and norms");
  line.fraction("--dropout", made.dropout, "the part of the values that a pass leaves out");
  line.fraction("--clip", made.clip, "the greatest norm of the gradients");
  line.number("--seed", made.seed, "decides the first weights and every shuffle");
  line.flag("--bf16-gradients", made.sends_bf16, "half as many bytes over the network");
  line.place(made.place);
  line.parse(count, values);
  if (made.dropout >= 1) line.refuse("--dropout must be less than 1");
  return made;
}

}  // namespace bert_classifier
