#include "rendezvous/core/agent/newest_word.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

void newest_word::connected() {
  connection_seq_ = 0;
  named_instance_ = 0;
  named_round_ = 0;
}

void newest_word::enter_epoch(std::uint64_t epoch) {
  DDPRUN_ASSERT(!is_older(epoch));
  epoch_ = epoch;
}

void newest_word::forget_instance() {
  instance_ = 0;
  round_ = 0;
}

bool newest_word::is_news(const desired& word) const {
  if (is_older(word.epoch)) return false;
  if (word.epoch > word_epoch_) return true;
  if (instance_ == 0) return true;
  if (word.instance != instance_) return word.seq > connection_seq_;
  return word.seq > seq_ || word.round > round_;
}

bool newest_word::take(const desired& word) {
  named_instance_ = word.instance;
  named_round_ = word.round;
  if (!is_news(word)) return false;
  if (instance_ != 0 && instance_ != word.instance) round_ = 0;
  enter_epoch(word.epoch);
  word_epoch_ = word.epoch;
  instance_ = word.instance;
  round_ = std::max(round_, word.round);
  seq_ = word.seq;
  connection_seq_ = std::max(connection_seq_, word.seq);
  return true;
}

bool newest_word::take_text(const std::string& text) {
  const bool is_new = !text.empty() && text != text_;
  text_ = text;
  return is_new;
}

bool newest_word::take_news(const std::string& news) {
  const bool is_new = !news.empty() && news != news_;
  if (is_new) news_ = news;
  return is_new;
}

bool newest_word::take_warning(const std::string& warning) {
  const bool is_new = !warning.empty() && warning != warning_;
  if (is_new) warning_ = warning;
  return is_new;
}

desired newest_word::take_deferred() {
  DDPRUN_ASSERT(deferred_.has_value());
  return *std::exchange(deferred_, std::nullopt);
}

bool newest_word::names(instance_id instance, round_number round) const {
  return named_instance_ == instance && named_round_ == round;
}

round_number newest_word::round_in(instance_id instance, round_number round) const {
  return instance != 0 && instance == instance_ ? std::max(round, round_) : round;
}

std::uint64_t newest_word::seq_in(instance_id instance) const {
  return instance != 0 && instance == instance_ && word_epoch_ == epoch_ ? seq_ : 0;
}

}  // namespace ddprun::core
