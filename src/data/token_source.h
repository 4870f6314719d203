#pragma once

#include <cstdint>
#include <span>

namespace trireme {

// Where training sequences come from. A sample is a function of its global number alone: there is
// no state but the position of the run, and ranks share the work by sharing the numbers.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // Every token read is in [0, vocab_size).
  virtual int64_t vocab_size() const = 0;

  // Writes one sequence: targets[t] is the token that follows inputs[t]. Both spans have seq_len
  // elements. Safe from several threads; no heap allocation. Throws IoError for a damaged file.
  virtual void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                           std::span<int32_t> targets) const = 0;
};

// Consecutive samples from `first_sample` on, one behind the other.
inline void read_sequences(const TokenSource& source, uint64_t first_sample, int64_t num_sequences,
                           std::span<int32_t> inputs, std::span<int32_t> targets) {
  const size_t seq_len = inputs.size() / size_t(num_sequences);
  for (size_t i = 0; i < size_t(num_sequences); ++i) {
    source.read_sample(first_sample + i, inputs.subspan(i * seq_len, seq_len),
                       targets.subspan(i * seq_len, seq_len));
  }
}

}  // namespace trireme
