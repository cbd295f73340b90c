#include "launcher/hosts/ssh/plan.hpp"

namespace ddprun::launcher::ssh {

cli::parsed<std::vector<std::string>> split_words(std::string_view given, std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool is_begun = false;
  char quote = 0;
  for (std::size_t index = 0; index < text.size(); ++index) {
    const char c = text[index];
    const bool is_blank = c == ' ' || c == '\t' || c == '\n';
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      is_begun = true;
    } else if (quote == 0 && is_blank) {
      if (is_begun) words.push_back(word);
      word.clear();
      is_begun = false;
    } else {
      const bool escapes = c == '\\' && quote != '\'' && index + 1 < text.size();
      word += escapes ? text[++index] : c;
      is_begun = true;
    }
  }
  if (quote != 0) return cli::wrong(given, std::string("a quote is not closed: ") + quote);
  if (is_begun) words.push_back(word);
  return words;
}

}  // namespace ddprun::launcher::ssh
