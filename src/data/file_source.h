#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "data/sampler.h"
#include "data/token_file.h"
#include "data/token_source.h"

namespace trireme {

// Training sequences of a token file, in the order of the sampler.
class FileSource : public TokenSource {
 public:
  // An error if the file has fewer than seq_len + 1 tokens.
  static Result<FileSource> open(const std::string& path, uint64_t seed, int64_t seq_len,
                                 int64_t verified_at_open = TokenFile::kVerifiedAtOpen);
  static Result<FileSource> make(TokenFile file, uint64_t seed, int64_t seq_len);

  int64_t vocab_size() const override { return file_.vocab_size(); }
  void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override;
  void will_read(uint64_t first_sample, int64_t num_samples) const override;

  // Windows read, divided by the windows of the file.
  double epochs_of(uint64_t num_samples) const override {
    return double(num_samples) / double(sampler_.num_windows());
  }

  const TokenFile& file() const { return file_; }
  const Sampler& sampler() const { return sampler_; }

 private:
  FileSource(TokenFile file, const Sampler& sampler);

  TokenFile file_;
  Sampler sampler_;
};

// Consecutive windows from the start of a token file, for validation. Sample k is always the same;
// samples from num_windows() on repeat the first ones.
class SequentialSource : public TokenSource {
 public:
  static Result<SequentialSource> open(const std::string& path, int64_t seq_len,
                                       int64_t verified_at_open = TokenFile::kVerifiedAtOpen);
  static Result<SequentialSource> make(TokenFile file, int64_t seq_len);

  int64_t vocab_size() const override { return file_.vocab_size(); }
  void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override;

  const TokenFile& file() const { return file_; }
  int64_t num_windows() const { return num_windows_; }

 private:
  SequentialSource(TokenFile file, int64_t seq_len);

  TokenFile file_;
  int64_t seq_len_;
  int64_t num_windows_;
};

}  // namespace trireme
