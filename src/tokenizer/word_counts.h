#pragma once

#include <cstdint>
#include <vector>

#include "device/thread_team.h"
#include "tokenizer/text_batch.h"
#include "tokenizer/word_table.h"

namespace trireme {

// Distinct words of a corpus and how often each occurs.
struct WordCounts {
  WordTable words;
  std::vector<uint64_t> counts;  // by number in `words`

  void add(std::string_view word, uint64_t count);
};

// Counts the words (pre_tokenizer.h) of a text that comes in batches, on all threads of a team.
class WordCounter {
 public:
  explicit WordCounter(ThreadTeam& team);

  // Counts and drops what is complete in the batch.
  void count(TextBatch& batch);
  // All counts; the order of words depends on the threads, their counts do not.
  WordCounts finish();

 private:
  ThreadTeam& team_;
  std::vector<WordCounts> counts_;  // one per thread
};

}  // namespace trireme
