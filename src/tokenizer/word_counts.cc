#include "tokenizer/word_counts.h"

#include <utility>

#include "tokenizer/pre_tokenizer.h"

namespace trireme {

void WordCounts::add(std::string_view word, uint64_t count) {
  const uint32_t index = words.find_or_add(word);
  if (index == counts.size()) counts.push_back(0);
  counts[index] += count;
}

WordCounter::WordCounter(ThreadTeam& team)
    : team_(team), counts_(static_cast<size_t>(team.size())) {}

void WordCounter::count(TextBatch& batch) {
  const LastSplit last_split = [](std::string_view text) { return last_word_split(text); };
  const size_t bytes = complete_bytes(batch, last_split);
  const std::vector<TextTile> tiles = make_tiles(batch, bytes, last_split);
  team_.parallel_for(static_cast<int64_t>(tiles.size()), [&](int64_t tile, int thread) {
    tiles[tile].for_each_part([&](std::string_view text, bool) {
      while (!text.empty()) {
        const size_t word_bytes = first_word_bytes(text);
        counts_[thread].add(text.substr(0, word_bytes), 1);
        text.remove_prefix(word_bytes);
      }
    });
  });
  batch.drop_front(bytes);
}

WordCounts WordCounter::finish() {
  WordCounts all = std::move(counts_[0]);
  for (size_t thread = 1; thread < counts_.size(); ++thread) {
    WordCounts other = std::move(counts_[thread]);
    for (uint32_t index = 0; index < other.words.size(); ++index) {
      all.add(other.words.word(index), other.counts[index]);
    }
  }
  counts_.clear();
  return all;
}

}  // namespace trireme
