#include "data/window_source.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace trireme {

WindowSource::WindowSource(std::vector<int32_t> tokens, int64_t vocab_size, int64_t seq_len)
    : tokens_(std::move(tokens)),
      num_tokens_(int64_t(tokens_.size())),
      vocab_size_(vocab_size),
      seq_len_(seq_len) {
  TRIREME_CHECK(num_tokens_ >= 2, "a single token predicts nothing");
}

WindowSource::WindowSource(const TokenFile& file, int64_t seq_len)
    : file_(&file),
      num_tokens_(file.num_tokens()),
      vocab_size_(file.vocab_size()),
      seq_len_(seq_len) {
  TRIREME_CHECK(num_tokens_ >= 2, "a single token predicts nothing");
}

void WindowSource::read(int64_t first, std::span<int32_t> out) const {
  if (file_ != nullptr) return file_->read(first, out);
  std::copy_n(tokens_.begin() + first, out.size(), out.begin());
}

void WindowSource::read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                               std::span<int32_t> targets) const {
  const int64_t first = int64_t(global_sample % uint64_t(num_windows())) * seq_len_;
  const auto count = size_t(std::min(seq_len_, num_tokens_ - 1 - first));
  read(first, inputs.first(count));
  if (file_ != nullptr) {
    file_->read_targets(first + 1, targets.first(count));
  } else {
    read(first + 1, targets.first(count));
  }
  std::fill(inputs.begin() + int64_t(count), inputs.end(), 0);
  std::fill(targets.begin() + int64_t(count), targets.end(), kUncountedTarget);
}

}  // namespace trireme
