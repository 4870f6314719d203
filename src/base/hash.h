#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// XXH3-64 with a seed.
uint64_t hash64(std::string_view bytes, uint64_t seed = 0);
uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);

// Returns 16 lower-case hexadecimal digits.
std::string hex64(uint64_t value);

// XXH3-64 of a stream that arrives in pieces.
class Hasher64 {
 public:
  Hasher64();
  ~Hasher64();
  Hasher64(const Hasher64&) = delete;
  Hasher64& operator=(const Hasher64&) = delete;
  void update(std::span<const std::byte> bytes);
  uint64_t digest() const;

 private:
  void* state_;  // XXH3_state_t, owned
};

}  // namespace trireme
