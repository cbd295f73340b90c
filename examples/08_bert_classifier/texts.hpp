// Reads a folder of texts as samples to classify. The class of a file is its name up to the first
// '-' or '.': sport-1.txt and sport-2.txt belong together. Links are skipped.
//
// A class has at least a thousand words; classes are in the order of their names. A word is a run
// of the letters a to z, in lower case. A line without a word, or the end of a file, ends a
// paragraph. A paragraph is cut into samples of a [CLS] and `length` - 1 words; a remainder of less
// than eight words is dropped. Every fifth sample of a class is for the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bert_classifier {

constexpr std::int64_t token_padding = 0, token_unknown = 1, token_class = 2, token_first_word = 3;

struct samples {
  std::vector<std::int64_t> tokens;  // `length` for each sample, padded at the end
  std::vector<std::int64_t> labels;
};

struct texts {
  std::vector<std::string> classes;
  std::size_t vocabulary = 0;  // tokens, including the three above
  samples train;
  samples test;
};

// Uses at most `vocabulary_max` tokens: the most frequent words, and among equally frequent ones
// the first in the alphabet. Throws std::runtime_error if the folder cannot be read or has fewer
// than two classes.
texts read_texts(const std::string& folder, std::size_t length, std::size_t vocabulary_max);

}  // namespace bert_classifier
