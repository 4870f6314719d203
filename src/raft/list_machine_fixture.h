#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "raft/packed_bytes.h"
#include "raft/state_machine.h"

namespace trireme {

inline uint64_t mix(uint64_t digest, uint64_t value) {
  uint64_t z = digest * 0x9E3779B97F4A7C15u + value + 1;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  return z ^ (z >> 31);
}

// Lists of tokens by key. A command appends a token, once however often it comes. Every answer is a
// length of the list and the digest of so many tokens, so answers tell exactly what came before.
class ListMachine : public StateMachine {
 public:
  struct Answer {
    int64_t length = 0;
    uint64_t digest = 0;
  };
  static std::string command(uint8_t key, int64_t token) {
    PackedWriter writer;
    writer.number<uint8_t>(key);
    writer.number<int64_t>(token);
    return writer.take();
  }
  static std::string question(uint8_t key) { return std::string(1, char(key)); }

  Answer append(std::string_view command) {
    PackedReader reader(command);
    const uint8_t key = reader.number<uint8_t>();
    const int64_t token = reader.number<int64_t>();
    std::vector<int64_t>& list = lists_[key];
    const auto found = std::find(list.begin(), list.end(), token);
    const int64_t length = found - list.begin() + 1;
    if (found == list.end()) list.push_back(token);
    digest_ = mix(mix(digest_, key), uint64_t(token));
    return {length, digest_of(list, length)};
  }
  Answer read(uint8_t key) const {
    const auto found = lists_.find(key);
    if (found == lists_.end()) return {};
    return {int64_t(found->second.size()), digest_of(found->second, int64_t(found->second.size()))};
  }
  static uint64_t digest_of(const std::vector<int64_t>& list, int64_t length) {
    uint64_t digest = 0;
    for (int64_t i = 0; i < length; ++i) digest = mix(digest, uint64_t(list[size_t(i)]));
    return digest;
  }

  std::string apply(std::string_view command) override { return encode(append(command)); }
  std::string query(std::string_view question) const override {
    return encode(read(uint8_t(question[0])));
  }
  std::string snapshot() const override {
    PackedWriter writer;
    writer.number<int64_t>(int64_t(digest_));
    for (const auto& [key, list] : lists_) {
      writer.number<uint8_t>(key);
      writer.long_text({reinterpret_cast<const char*>(list.data()), list.size() * sizeof(int64_t)});
    }
    return writer.take();
  }
  Status restore(std::string_view snapshot) override {
    PackedReader reader(snapshot);
    const auto digest = uint64_t(reader.number<int64_t>());
    std::map<uint8_t, std::vector<int64_t>> lists;
    while (!reader.has_failed() && !reader.is_done()) {
      std::vector<int64_t>& list = lists[reader.number<uint8_t>()];
      PackedReader tokens(reader.long_text());
      while (!tokens.is_done() && !tokens.has_failed()) list.push_back(tokens.number<int64_t>());
    }
    if (reader.has_failed()) return damaged("this is no snapshot of lists");
    digest_ = digest;
    lists_ = std::move(lists);
    return Done{};
  }
  uint64_t digest() const { return digest_; }  // of all commands in order
  const std::map<uint8_t, std::vector<int64_t>>& lists() const { return lists_; }

 private:
  static std::string encode(Answer answer) {
    PackedWriter writer;
    writer.number<int64_t>(answer.length);
    writer.number<int64_t>(int64_t(answer.digest));
    return writer.take();
  }

  uint64_t digest_ = 0;
  std::map<uint8_t, std::vector<int64_t>> lists_;
};

}  // namespace trireme
