#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "device/thread_team.h"
#include "tokenizer/text_batch.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_cache.h"

namespace trireme {

// Encodes a text that comes in batches, on all threads of a team. The tokens are those of each
// document encoded as a whole, with <|endoftext|> after it.
class TextEncoder {
 public:
  TextEncoder(const Tokenizer& tokenizer, ThreadTeam& team);

  struct Encoded {
    std::vector<int32_t> tokens;
    std::vector<size_t> document_ends;  // in tokens, behind <|endoftext|>
  };
  // Encodes and drops what is complete in the batch.
  Status encode(TextBatch& batch, Encoded& encoded);

 private:
  const Tokenizer& tokenizer_;
  ThreadTeam& team_;
  std::vector<WordCache> caches_;  // one per thread
  std::vector<Encoded> tiles_;     // kept for their memory
};

}  // namespace trireme
