#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/file_source.h"
#include "data/source_order.h"
#include "data/token_source.h"

namespace trireme {

// Training sequences from several token files with weights. SourceOrder chooses the file of each
// sample. Each file has a sampler of its own, so every window is read once in an epoch of that
// file.
class MixtureSource : public TokenSource {
 public:
  // `files` come from part(), and `weights` has one positive number for each. An error if the
  // files have different tokenizers.
  static Result<MixtureSource> make(uint64_t seed, std::vector<FileSource> files,
                                    std::span<const double> weights);
  // File number `source` of a mixture. Its order of windows depends on the seed and on
  // `source`, so that a file that is listed twice has two orders.
  static Result<FileSource> part(TokenFile file, uint64_t seed, size_t source, int64_t seq_len);

  int64_t vocab_size() const override { return files_.front().vocab_size(); }
  void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override;
  void will_read(uint64_t first_sample, int64_t num_samples) const override;
  double epochs_of(uint64_t num_samples) const override;  // of the file that is read most often

  std::span<const FileSource> files() const { return files_; }
  const SourceOrder& order() const { return order_; }

 private:
  MixtureSource(std::vector<FileSource> files, SourceOrder order)
      : files_(std::move(files)), order_(std::move(order)) {}

  std::vector<FileSource> files_;
  SourceOrder order_;
};

}  // namespace trireme
