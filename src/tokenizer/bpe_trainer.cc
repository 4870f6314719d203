#include "tokenizer/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <string>
#include <utility>

#include "base/check.h"
#include "tokenizer/pair_table.h"

namespace trireme {
namespace {

struct Pair {
  uint64_t count = 0;
  // Positions at which its left token begins, ascending. The pair may be gone from some of these
  // positions.
  std::vector<uint32_t> positions;
};

struct PairCandidate {
  uint64_t count;  // when it was pushed; the pair's current count may be lower
  int32_t left;
  int32_t right;
  uint32_t index;  // index in pairs_

  friend bool operator<(const PairCandidate& a, const PairCandidate& b) {
    if (a.count != b.count) return a.count < b.count;
    return std::pair(a.left, a.right) > std::pair(b.left, b.right);
  }
};

// All distinct words as one array with a place per byte. A token is written at its first byte and,
// as kTail - token, at its last byte (unless it has only one byte). So both neighbours are found
// without links: the next token begins length(token) places further, the previous one ends just
// before. kBorder stands between words and at the first byte of a token that was merged into its
// left neighbour.
class MergeLearner {
 public:
  explicit MergeLearner(const WordCounts& words);

  // Merges the most frequent pair. Returns false if no pair occurs min_count times.
  bool merge_best(uint64_t min_count);
  std::vector<BpeMerge> take_merges() { return std::move(merges_); }

 private:
  static constexpr int32_t kBorder = -1;
  static constexpr int32_t kTail = -2;

  void place(int32_t token, uint32_t position);
  void merge_at(uint32_t position, const BpeMerge& merge, int32_t made);
  void count_up(int32_t left, int32_t right, uint32_t position);
  void count_down(int32_t left, int32_t right, uint64_t count);
  void push_new_pairs();

  std::vector<int32_t> places_;
  std::vector<uint32_t> word_of_;        // [place]
  const std::vector<uint64_t>& counts_;  // [word]
  std::vector<uint32_t> lengths_;        // [token], in bytes
  PairTable table_;                      // pair -> index in pairs_
  std::vector<Pair> pairs_;
  std::vector<PairCandidate> new_pairs_;  // pairs that this merge has created
  std::priority_queue<PairCandidate> candidates_;
  std::vector<BpeMerge> merges_;
};

MergeLearner::MergeLearner(const WordCounts& words)
    : counts_(words.counts), lengths_(BpeTokenizer::kNumBytes, 1) {
  places_.push_back(kBorder);
  word_of_.push_back(0);
  for (uint32_t word = 0; word < words.words.size(); ++word) {
    const std::string_view bytes = words.words.word(word);
    if (bytes.size() < 2) continue;
    for (char byte : bytes) {
      places_.push_back(BpeTokenizer::token_of_byte(static_cast<uint8_t>(byte)));
    }
    places_.push_back(kBorder);
    word_of_.resize(places_.size(), word);
  }
  TRIREME_CHECK(places_.size() < UINT32_MAX, "4 GiB of distinct words");
  for (uint32_t position = 1; position + 1 < places_.size(); ++position) {
    if (places_[position] != kBorder && places_[position + 1] != kBorder) {
      count_up(places_[position], places_[position + 1], position);
    }
  }
  push_new_pairs();
}

bool MergeLearner::merge_best(uint64_t min_count) {
  while (!candidates_.empty()) {
    PairCandidate best = candidates_.top();
    candidates_.pop();
    const uint64_t count = pairs_[best.index].count;
    if (best.count != count) {  // pushed again with its current count
      best.count = count;
      if (count >= min_count) candidates_.push(best);
      continue;
    }
    if (count < min_count) return false;
    const BpeMerge merge{best.left, best.right};
    const int32_t made = static_cast<int32_t>(lengths_.size());
    lengths_.push_back(lengths_[merge.left] + lengths_[merge.right]);
    merges_.push_back(merge);
    const std::vector<uint32_t> positions = std::exchange(pairs_[best.index].positions, {});
    for (uint32_t position : positions) merge_at(position, merge, made);
    push_new_pairs();
    return true;
  }
  return false;
}

void MergeLearner::place(int32_t token, uint32_t position) {
  places_[position] = token;
  if (lengths_[token] > 1) places_[position + lengths_[token] - 1] = kTail - token;
}

void MergeLearner::merge_at(uint32_t position, const BpeMerge& merge, int32_t made) {
  const uint32_t right_position = position + lengths_[merge.left];
  const bool is_gone = places_[position] != merge.left || places_[right_position] != merge.right;
  if (is_gone) return;
  const uint64_t count = counts_[word_of_[position]];
  const int32_t before = places_[position - 1];
  const int32_t after = places_[right_position + lengths_[merge.right]];

  places_[right_position] = kBorder;
  place(made, position);
  if (before != kBorder) {
    const int32_t previous = before <= kTail ? kTail - before : before;
    count_down(previous, merge.left, count);
    count_up(previous, made, position - lengths_[previous]);
  }
  if (after != kBorder) {
    count_down(merge.right, after, count);
    count_up(made, after, position);
  }
}

void MergeLearner::count_up(int32_t left, int32_t right, uint32_t position) {
  if (lengths_[left] + lengths_[right] > BpeTokenizer::kGreatestTokenBytes) return;
  uint32_t& index = table_.find_or_add(left, right);
  if (index == PairTable::kAbsent) {
    index = static_cast<uint32_t>(pairs_.size());
    new_pairs_.push_back({0, left, right, index});
    pairs_.emplace_back();
  }
  pairs_[index].count += counts_[word_of_[position]];
  pairs_[index].positions.push_back(position);
}

void MergeLearner::count_down(int32_t left, int32_t right, uint64_t count) {
  const uint32_t index = table_.find(left, right);
  if (index != PairTable::kAbsent) pairs_[index].count -= count;
}

void MergeLearner::push_new_pairs() {
  for (PairCandidate& candidate : new_pairs_) {
    candidate.count = pairs_[candidate.index].count;
    if (candidate.count > 0) candidates_.push(candidate);
  }
  new_pairs_.clear();
}

}  // namespace

Result<BpeTokenizer> train_bpe(const WordCounts& words, const BpeTrainOptions& options) {
  const int64_t num_merges = options.vocab_size - BpeTokenizer::kNumBytes - 1;
  if (num_merges < 0 || options.vocab_size > INT32_MAX) {
    return Error{ErrorKind::Usage, "a vocabulary of " + std::to_string(options.vocab_size) +
                                       ": a bpe tokenizer has 256 bytes and <|endoftext|>, so take "
                                       "257 or more"};
  }
  MergeLearner learner(words);
  const uint64_t min_count = std::max<uint64_t>(1, options.min_pair_count);
  for (int64_t merge = 0; merge < num_merges; ++merge) {
    if (!learner.merge_best(min_count)) break;
    if (options.progress && (merge + 1) % 1000 == 0) options.progress(merge + 1, num_merges);
  }
  return BpeTokenizer::make(learner.take_merges());
}

}  // namespace trireme
