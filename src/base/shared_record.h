#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace trireme {

// A value in memory shared by threads or processes, with one writer at a time, any number of
// readers and no locks. All zero bytes are a valid empty record, so it can be placed in new shared
// memory.
template <typename T>
class SharedRecord {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);

 public:
  void store(const T& value) {
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &value, sizeof(T));
    // The version is odd during a write. It stays odd if a writer died in the middle.
    const uint64_t version = version_.load(std::memory_order_relaxed) | 1;
    version_.store(version, std::memory_order_relaxed);
    // Stores with release order: a reader that sees any new word also sees the odd version.
    for (int i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(version + 1, std::memory_order_release);
  }

  // Returns a consistent copy, or nullopt if many tries found a write in progress, because the
  // writer lost its core or died.
  std::optional<T> load() const {
    std::array<uint64_t, kWords> words;
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const uint64_t before = version_.load(std::memory_order_acquire);
      if (before % 2 != 0) continue;
      for (int i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
      if (version_.load(std::memory_order_relaxed) != before) continue;
      T value;
      std::memcpy(static_cast<void*>(&value), words.data(), sizeof(T));
      return value;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kWords = sizeof(T) / 8;
  std::atomic<uint64_t> version_;
  std::array<std::atomic<uint64_t>, kWords> words_;
};

}  // namespace trireme
