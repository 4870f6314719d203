#include "data/chat_encoder.h"

#include "data/token_file.h"

namespace trireme {

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, ChatTemplate chat, ThreadTeam& team)
    : tokenizer_(tokenizer),
      special_(tokenizer),
      chat_(std::move(chat)),
      team_(team),
      caches_(static_cast<size_t>(team.size())) {}

Status ChatEncoder::encode_document(std::string_view line, WordCache& cache,
                                    std::vector<int32_t>& tokens) const {
  TRIREME_TRY(parts, parse_chat(line, chat_));
  bool is_counted = false;
  for (const ChatPart& part : parts) {
    const size_t begin = tokens.size();
    TRIREME_TRY_DONE(part.is_template ? special_.append_tokens(part.text, cache, tokens)
                                      : tokenizer_.append_tokens(part.text, cache, tokens));
    is_counted = part.is_counted;
    for (size_t i = begin; i < tokens.size() && !is_counted; ++i) tokens[i] = uncounted(tokens[i]);
  }
  const int32_t end = tokenizer_.end_of_text();
  tokens.push_back(is_counted ? end : uncounted(end));
  return Done{};
}

Status ChatEncoder::encode(TextBatch& batch, const TextReader& reader,
                           TextEncoder::Encoded& encoded) {
  const std::vector<size_t>& ends = batch.document_ends;
  if (tokens_.size() < ends.size()) tokens_.resize(ends.size());
  std::vector<Status> statuses(ends.size(), Done{});
  team_.parallel_for(static_cast<int64_t>(ends.size()), [&](int64_t document, int thread) {
    const size_t begin = document == 0 ? 0 : ends[document - 1];
    const auto line = std::string_view(batch.text).substr(begin, ends[document] - begin);
    tokens_[document].clear();
    statuses[document] = encode_document(line, caches_[thread], tokens_[document]);
  });
  encoded.tokens.clear();
  encoded.document_ends.clear();
  for (size_t document = 0; document < ends.size(); ++document) {
    if (!statuses[document].ok()) {
      return with_context(statuses[document].error(), reader.place(document));
    }
    encoded.tokens.insert(encoded.tokens.end(), tokens_[document].begin(), tokens_[document].end());
    encoded.document_ends.push_back(encoded.tokens.size());
  }
  batch.drop_front(batch.open_begin());
  return Done{};
}

}  // namespace trireme
