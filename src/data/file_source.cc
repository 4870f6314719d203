#include "data/file_source.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

Status check_length(const TokenFile& file, int64_t seq_len) {
  if (file.num_tokens() > seq_len) return Done{};
  return Error{ErrorKind::Usage,
               file.path() + " has " + std::to_string(file.num_tokens()) +
                   " tokens; a sequence of model.seq_len = " + std::to_string(seq_len) + " needs " +
                   std::to_string(seq_len + 1) + ": take more text or shorter sequences"};
}

// The targets are the inputs shifted by one token. With a loss mask, some become kUncountedTarget.
void read_window(const TokenFile& file, int64_t first_token, std::span<int32_t> inputs,
                 std::span<int32_t> targets) {
  TRIREME_CHECK(inputs.size() == targets.size(), "inputs and targets differ in length");
  file.read(first_token, inputs);
  if (file.header().has_loss_mask) {
    file.read_targets(first_token + 1, targets);
    return;
  }
  std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
  file.read(first_token + static_cast<int64_t>(inputs.size()), targets.last(1));
}

void check_seq_len(std::span<const int32_t> inputs, int64_t seq_len) {
  TRIREME_CHECK(static_cast<int64_t>(inputs.size()) == seq_len,
                "a sample has " + std::to_string(seq_len) + " tokens, the caller's span " +
                    std::to_string(inputs.size()));
}

}  // namespace

FileSource::FileSource(TokenFile file, const Sampler& sampler)
    : file_(std::move(file)), sampler_(sampler) {}

Result<FileSource> FileSource::open(const std::string& path, uint64_t seed, int64_t seq_len,
                                    int64_t verified_at_open) {
  TRIREME_TRY(file, TokenFile::open(path, verified_at_open));
  return make(std::move(file), seed, seq_len);
}

Result<FileSource> FileSource::make(TokenFile file, uint64_t seed, int64_t seq_len) {
  TRIREME_TRY_DONE(check_length(file, seq_len));
  const Sampler sampler(seed, file.num_tokens(), seq_len);
  return FileSource(std::move(file), sampler);
}

void FileSource::read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                             std::span<int32_t> targets) const {
  check_seq_len(inputs, sampler_.seq_len());
  read_window(file_, sampler_.first_token(global_sample), inputs, targets);
}

void FileSource::will_read(uint64_t first_sample, int64_t num_samples) const {
  if (!file_.is_elsewhere()) return;
  for (int64_t sample = 0; sample < num_samples; ++sample) {
    file_.will_read(sampler_.first_token(first_sample + uint64_t(sample)), sampler_.seq_len() + 1);
  }
}

SequentialSource::SequentialSource(TokenFile file, int64_t seq_len)
    : file_(std::move(file)), seq_len_(seq_len), num_windows_((file_.num_tokens() - 1) / seq_len) {}

Result<SequentialSource> SequentialSource::open(const std::string& path, int64_t seq_len,
                                                int64_t verified_at_open) {
  TRIREME_TRY(file, TokenFile::open(path, verified_at_open));
  return make(std::move(file), seq_len);
}

Result<SequentialSource> SequentialSource::make(TokenFile file, int64_t seq_len) {
  TRIREME_TRY_DONE(check_length(file, seq_len));
  return SequentialSource(std::move(file), seq_len);
}

void SequentialSource::read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                                   std::span<int32_t> targets) const {
  check_seq_len(inputs, seq_len_);
  const uint64_t window = global_sample % static_cast<uint64_t>(num_windows_);
  read_window(file_, static_cast<int64_t>(window) * seq_len_, inputs, targets);
}

}  // namespace trireme
