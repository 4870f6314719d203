#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "data/token_source.h"

namespace trireme {

// Documents of one sequence. A document ends with the token `document_end`, which belongs to it; a
// sequence may begin and end inside one. Sequences follow each other, each of seq_len tokens. For
// every token: where its document begins in the sequence, and its position in the document.
void place_documents(std::span<const int32_t> tokens, int64_t seq_len, int32_t document_end,
                     std::span<int32_t> first, std::span<int32_t> position);

// A source whose documents do not see each other (data.document_mask): the loss leaves out the
// token after the end of a document, which that document knows nothing of.
class DocumentSource : public TokenSource {
 public:
  DocumentSource(std::unique_ptr<TokenSource> source, int32_t document_end)
      : source_(std::move(source)), document_end_(document_end) {}

  int64_t vocab_size() const override { return source_->vocab_size(); }
  int32_t document_end() const override { return document_end_; }
  void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override;
  void will_read(uint64_t first_sample, int64_t num_samples) const override {
    source_->will_read(first_sample, num_samples);
  }
  double epochs_of(uint64_t num_samples) const override { return source_->epochs_of(num_samples); }

 private:
  std::unique_ptr<TokenSource> source_;
  int32_t document_end_;
};

}  // namespace trireme
