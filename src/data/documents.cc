#include "data/documents.h"

#include "base/check.h"

namespace trireme {

void place_documents(std::span<const int32_t> tokens, int64_t seq_len, int32_t document_end,
                     std::span<int32_t> first, std::span<int32_t> position) {
  TRIREME_CHECK(first.size() == tokens.size() && position.size() == tokens.size(),
                "every token has a place");
  int32_t begin = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const auto in_sequence = int32_t(int64_t(t) % seq_len);
    if (in_sequence == 0)
      begin = 0;
    else if (tokens[t - 1] == document_end)
      begin = in_sequence;
    first[t] = begin;
    position[t] = in_sequence - begin;
  }
}

void DocumentSource::read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                                 std::span<int32_t> targets) const {
  source_->read_sample(global_sample, inputs, targets);
  for (size_t t = 0; t < inputs.size(); ++t) {
    if (inputs[t] == document_end_) targets[t] = kUncountedTarget;
  }
}

}  // namespace trireme
