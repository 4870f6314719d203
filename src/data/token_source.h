#pragma once

#include <cstdint>
#include <span>

namespace trireme {

// Stands in `targets` for a token that the loss leaves out.
inline constexpr int32_t kUncountedTarget = -1;

// A source of training samples: sequences of tokens, or images. A sample depends only on its global
// number, so the only state is the position of the run, and ranks divide the work by dividing the
// numbers.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // Every token is in [0, vocab_size); of images, every class.
  virtual int64_t vocab_size() const = 0;

  // The token that ends a document where those of one sequence do not see each other
  // (documents.h); -1: a sequence is one document.
  virtual int32_t document_end() const { return -1; }

  // Writes one sample. Of a sequence, targets[t] is the token that follows inputs[t], or
  // kUncountedTarget, and both spans have seq_len elements. Of an image, `inputs` are its bytes
  // [row, column, channel], four in a word, and there is one target, its class. Several threads may
  // call it, and it allocates no heap memory. Throws IoError for a damaged file.
  virtual void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                           std::span<int32_t> targets) const = 0;

  // Says that these samples are read next. The data may be fetched from elsewhere meanwhile.
  virtual void will_read(uint64_t first_sample, int64_t num_samples) const {
    static_cast<void>(first_sample);
    static_cast<void>(num_samples);
  }

  // Returns how often the data are read in the first num_samples samples. Of several files, the one
  // that is read most often counts. Returns 0 if the data never end.
  virtual double epochs_of(uint64_t num_samples) const {
    static_cast<void>(num_samples);
    return 0.0;
  }
};

// Reads consecutive samples, starting with `first_sample`, one after the other.
inline void read_sequences(const TokenSource& source, uint64_t first_sample, int64_t num_sequences,
                           std::span<int32_t> inputs, std::span<int32_t> targets) {
  const size_t words = inputs.size() / size_t(num_sequences);
  const size_t num_targets = targets.size() / size_t(num_sequences);
  for (size_t i = 0; i < size_t(num_sequences); ++i) {
    source.read_sample(first_sample + i, inputs.subspan(i * words, words),
                       targets.subspan(i * num_targets, num_targets));
  }
}

}  // namespace trireme
