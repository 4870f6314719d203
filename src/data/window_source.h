#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/token_file.h"
#include "data/token_source.h"

namespace trireme {

// All tokens of a text or a token file in consecutive windows, for an evaluation. Every token but
// the first is a target exactly once, except for those that the file's loss mask leaves out. The
// last window may be shorter; its inputs are filled with 0 and its targets with kUncountedTarget.
// Samples from num_windows() on repeat the first ones.
class WindowSource : public TokenSource {
 public:
  WindowSource(std::vector<int32_t> tokens, int64_t vocab_size, int64_t seq_len);
  // The file must outlive this object.
  WindowSource(const TokenFile& file, int64_t seq_len);

  int64_t vocab_size() const override { return vocab_size_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_windows() const { return (num_tokens_ - 1 + seq_len_ - 1) / seq_len_; }
  void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override;

 private:
  void read(int64_t first, std::span<int32_t> out) const;

  std::vector<int32_t> tokens_;
  const TokenFile* file_ = nullptr;  // null: the tokens are in tokens_
  int64_t num_tokens_;               // at least 2
  int64_t vocab_size_;
  int64_t seq_len_;
};

}  // namespace trireme
