#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace trireme {

// A value in memory shared by threads or processes: one writer at a time, any number of readers,
// no locks. All zero bytes are a valid empty record, so it can lie in fresh shared memory.
template <typename T>
class SharedRecord {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);

 public:
  void store(const T& value) {
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &value, sizeof(T));
    // Odd while it is written, also after a writer that stopped halfway for good.
    const uint64_t version = version_.load(std::memory_order_relaxed) | 1;
    version_.store(version, std::memory_order_relaxed);
    // Releasing words: a reader that sees any of them also sees the odd version.
    for (int i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(version + 1, std::memory_order_release);
  }

  // A consistent copy; nullopt where many tries found a writer halfway: it lost its core, or died.
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
