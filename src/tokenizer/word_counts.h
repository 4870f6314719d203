#pragma once

#include <cstdint>
#include <vector>

#include "device/thread_team.h"
#include "tokenizer/text_batch.h"
#include "tokenizer/word_table.h"

namespace trireme {

// The distinct words of a corpus and how often each occurs.
struct WordCounts {
  WordTable words;
  std::vector<uint64_t> counts;  // by the number in `words`

  void add(std::string_view word, uint64_t count);
};

// Counts the words (pre_tokenizer.h) of a text that arrives in batches, on all threads of a team.
class WordCounter {
 public:
  explicit WordCounter(ThreadTeam& team);

  // Counts the complete part of the batch and drops it.
  void count(TextBatch& batch);
  // Returns all counts. The order of words depends on the threads, their counts do not.
  WordCounts finish();

 private:
  ThreadTeam& team_;
  std::vector<WordCounts> counts_;  // one per thread
};

}  // namespace trireme
