#include "data/baselines.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {
namespace {

constexpr int64_t kBlock = 4096;

// Calls visit(tokens) for consecutive blocks. Each block begins with the last token of the block
// before. Stops if visit returns false.
template <typename Visit>
void for_each_block(const TokenFile& file, Visit&& visit) {
  std::vector<int32_t> tokens;
  for (int64_t begin = 0; begin + 1 < file.num_tokens(); begin += kBlock) {
    tokens.resize(static_cast<size_t>(std::min(kBlock + 1, file.num_tokens() - begin)));
    file.read(begin, tokens);
    if (!visit(std::span<const int32_t>(tokens))) return;
  }
}

}  // namespace

CountModel::CountModel(const TokenFile& train, int64_t max_pairs, int64_t max_tokens)
    : vocab_size_(static_cast<double>(train.vocab_size())),
      counts_(static_cast<size_t>(train.vocab_size())),
      left_counts_(counts_.size()),
      followers_(counts_.size()),
      predecessors_(counts_.size()) {
  for_each_block(train, [&](std::span<const int32_t> tokens) {
    for (size_t t = 0; t + 1 < tokens.size(); ++t) {
      if (!count_pair(tokens[t], tokens[t + 1], max_pairs)) return false;
      num_tokens_ += num_tokens_ == 0 ? 2 : 1;
    }
    return num_tokens_ < max_tokens;
  });
  // Every token except the first is the right one of a pair.
  if (num_tokens_ > 0) {
    int32_t first = 0;
    train.read(0, std::span(&first, 1));
    ++counts_[first];
  }
  choose_discount();
}

bool CountModel::count_pair(int32_t left, int32_t right, int64_t max_pairs) {
  uint32_t& index = pairs_.find_or_add(left, right);
  if (index == PairTable::kAbsent) {
    if (static_cast<int64_t>(pair_counts_.size()) >= max_pairs) return false;
    index = static_cast<uint32_t>(pair_counts_.size());
    pair_counts_.push_back(0);
    ++followers_[left];
    ++predecessors_[right];
  }
  ++pair_counts_[index];
  ++left_counts_[left];
  ++counts_[right];
  return true;
}

// Estimates the discount by Ney, Essen and Kneser from the pairs that occur once and twice.
void CountModel::choose_discount() {
  const double once = std::count(pair_counts_.begin(), pair_counts_.end(), 1u);
  const double twice = std::count(pair_counts_.begin(), pair_counts_.end(), 2u);
  if (once > 0 && twice > 0) discount_ = once / (once + 2 * twice);
}

double CountModel::unigram(int32_t token) const {
  return static_cast<double>(counts_[token] + 1) / (static_cast<double>(num_tokens_) + vocab_size_);
}

double CountModel::bigram(int32_t previous, int32_t token) const {
  const double continuation = static_cast<double>(predecessors_[token] + 1) /
                              (static_cast<double>(pair_counts_.size()) + vocab_size_);
  if (left_counts_[previous] == 0) return continuation;
  const double total = static_cast<double>(left_counts_[previous]);
  const uint32_t index = pairs_.find(previous, token);
  const double count = index == PairTable::kAbsent || index >= pair_counts_.size()
                           ? 0.0
                           : static_cast<double>(pair_counts_[index]) - discount_;
  return (count + discount_ * static_cast<double>(followers_[previous]) * continuation) / total;
}

Result<Baselines> measure_baselines(const TokenFile& train, const TokenFile& val,
                                    int64_t max_tokens) {
  if (train.header().tokenizer_hash != val.header().tokenizer_hash ||
      train.vocab_size() != val.vocab_size()) {
    return Error{ErrorKind::Usage, train.path() + " and " + val.path() +
                                       " are of different tokenizers; prepare both with the same"};
  }
  if (val.num_tokens() < 2) {
    return Error{ErrorKind::Usage, val.path() + " has fewer than two tokens: nothing to predict"};
  }
  const CountModel model(train, int64_t{1} << 23, max_tokens);
  int64_t predicted = 0;
  double unigram = 0.0;
  double bigram = 0.0;
  for_each_block(val, [&](std::span<const int32_t> tokens) {
    for (size_t t = 0; t + 1 < tokens.size(); ++t) {
      unigram -= std::log(model.unigram(tokens[t + 1]));
      bigram -= std::log(model.bigram(tokens[t], tokens[t + 1]));
      ++predicted;
    }
    return predicted < max_tokens;
  });
  unigram /= static_cast<double>(predicted);
  bigram /= static_cast<double>(predicted);
  return Baselines{.unigram_nats = unigram,
                   .bigram_nats = bigram,
                   .unigram_bits_per_byte = bits_per_byte(unigram, val.header()),
                   .bigram_bits_per_byte = bits_per_byte(bigram, val.header()),
                   .train_tokens = model.num_tokens()};
}

double bits_per_byte(double nats_per_token, const TokenFileHeader& header) {
  const double tokens_per_byte =
      static_cast<double>(header.num_tokens) / static_cast<double>(header.text_bytes);
  return nats_per_token / std::numbers::ln2 * tokens_per_byte;
}

}  // namespace trireme
