#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "data/chat.h"
#include "data/text_reader.h"
#include "device/thread_team.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/text_batch.h"
#include "tokenizer/text_encoder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_cache.h"

namespace trireme {

// Encodes conversations on all threads of a team. Each document is the JSON text of a conversation
// (chat.h). Every part is encoded by itself, so no token contains the end of a prompt and the start
// of its completion. A token that the loss leaves out is negative (uncounted() in token_file.h).
// The loss counts the end-of-text token if it counts the last part.
class ChatEncoder {
 public:
  ChatEncoder(const Tokenizer& tokenizer, ChatTemplate chat, ThreadTeam& team);

  // Encodes the complete documents of the batch, which the last read() of `reader` has appended to
  // an empty one, and removes them from it. An error names the file and the line of a document.
  Status encode(TextBatch& batch, const TextReader& reader, TextEncoder::Encoded& encoded);

 private:
  Status encode_document(std::string_view line, WordCache& cache,
                         std::vector<int32_t>& tokens) const;

  const Tokenizer& tokenizer_;
  SpecialTokenEncoder special_;
  ChatTemplate chat_;
  ThreadTeam& team_;
  std::vector<WordCache> caches_;             // one per thread
  std::vector<std::vector<int32_t>> tokens_;  // [document]; kept so that their memory is reused
};

}  // namespace trireme
