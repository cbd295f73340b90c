// A folder of texts as samples to classify. Files of one class have names that begin alike, up to
// the first '-' or '.': sport-1.txt and sport-2.txt. Links are no texts of their own.
//
// A class has a thousand words or more; they are in the order of their names. A word is a run of
// the letters a to z, in lower case; a line without one, or a file's end, ends a paragraph. A
// paragraph is cut into samples of `length` - 1 words behind a [CLS]; what is left with fewer than
// eight is dropped. Every fifth sample of a class is for the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bert_classifier {

constexpr std::int64_t token_padding = 0, token_unknown = 1, token_class = 2, token_first_word = 3;

struct samples {
  std::vector<std::int64_t> tokens;  // `length` a sample, padding behind the last word
  std::vector<std::int64_t> labels;
};

struct texts {
  std::vector<std::string> classes;
  std::size_t vocabulary = 0;  // tokens, with the three above
  samples train;
  samples test;
};

// At most `vocabulary_max` tokens: those of the words that come most often, the alphabet's first
// where they come as often. Throws std::runtime_error: the folder cannot be read, or has less than
// two classes.
texts read_texts(const std::string& folder, std::size_t length, std::size_t vocabulary_max);

}  // namespace bert_classifier
