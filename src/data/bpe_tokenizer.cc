#include "data/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <queue>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "data/pre_tokenizer.h"
#include "data/tokenizer_json.h"

namespace trireme {
namespace {

struct ByteOrder {
  std::array<uint8_t, 256> byte_of_token{};
  std::array<uint8_t, 256> token_of_byte{};
};

// GPT-2's: the bytes that Latin-1 prints, then the others, each in ascending order.
constexpr ByteOrder kByteOrder = [] {
  ByteOrder order;
  int token = 0;
  for (const bool printable : {true, false}) {
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      if (is_printable != printable) continue;
      order.byte_of_token[token] = static_cast<uint8_t>(byte);
      order.token_of_byte[byte] = static_cast<uint8_t>(token);
      ++token;
    }
  }
  return order;
}();

// A pair that can be merged, at the position of its left symbol. The earliest merge has the
// smallest token; among equals the leftmost comes first.
struct Candidate {
  uint32_t merged;
  uint32_t position;
  friend bool operator>(const Candidate& a, const Candidate& b) {
    return std::pair(a.merged, a.position) > std::pair(b.merged, b.position);
  }
};

}  // namespace

int32_t BpeTokenizer::token_of_byte(uint8_t byte) { return kByteOrder.token_of_byte[byte]; }

int64_t BpeTokenizer::vocab_size() const {
  return kNumBytes + static_cast<int64_t>(merges_.size()) + 1;
}

Result<BpeTokenizer> BpeTokenizer::make(std::vector<BpeMerge> merges) {
  BpeTokenizer tokenizer;
  tokenizer.merges_ = std::move(merges);
  tokenizer.begins_.push_back(0);
  for (uint8_t byte : kByteOrder.byte_of_token) {
    tokenizer.bytes_ += static_cast<char>(byte);
    tokenizer.begins_.push_back(tokenizer.bytes_.size());
  }
  for (size_t k = 0; k < tokenizer.merges_.size(); ++k) {
    auto added = tokenizer.add_piece(k);
    if (!added.ok()) return with_context(added.error(), fmt::format("merges[{}]", k));
  }
  return tokenizer;
}

Status BpeTokenizer::add_piece(size_t merge_index) {
  const int32_t left = merges_[merge_index].left;
  const int32_t right = merges_[merge_index].right;
  const int32_t made = kNumBytes + static_cast<int32_t>(merge_index);
  const auto refuse = [&](const char* why) {
    return Error{ErrorKind::Damaged, fmt::format("({}, {}) {}", left, right, why)};
  };
  if (left < 0 || right < 0 || left >= made || right >= made) {
    return refuse("joins a token that is not there yet");
  }
  uint32_t& merged = merged_.find_or_add(left, right);
  if (merged != PairTable::kAbsent) return refuse("was merged before");
  merged = static_cast<uint32_t>(made);
  const std::string bytes = std::string(piece(left)) + std::string(piece(right));
  if (bytes.size() > kGreatestTokenBytes) return refuse("makes a token of more than 4096 bytes");
  bytes_ += bytes;
  begins_.push_back(bytes_.size());
  return Done{};
}

std::string_view BpeTokenizer::piece(int32_t token) const {
  TRIREME_CHECK(token >= 0 && token < vocab_size(), "token " + std::to_string(token));
  if (token == end_of_text()) return kEndOfText;
  return std::string_view(bytes_).substr(begins_[token], begins_[token + 1] - begins_[token]);
}

size_t BpeTokenizer::last_split(std::string_view text) const { return last_word_split(text); }

Status BpeTokenizer::append_tokens(std::string_view text, WordCache& cache,
                                   std::vector<int32_t>& tokens) const {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, first_word_bytes(text));
    text.remove_prefix(word.size());
    cache.append(word, tokens, [this](std::string_view unknown, std::vector<int32_t>& out) {
      unknown.size() <= kShortWordBytes ? append_by_scan(unknown, out)
                                        : append_by_heap(unknown, out);
    });
  }
  return Done{};
}

void BpeTokenizer::append_by_scan(std::string_view word, std::vector<int32_t>& tokens) const {
  const size_t begin = tokens.size();
  for (char byte : word) tokens.push_back(token_of_byte(static_cast<uint8_t>(byte)));
  int32_t* symbols = tokens.data() + begin;
  size_t length = word.size();
  TRIREME_CHECK(length <= kShortWordBytes, "a word of " + std::to_string(length) + " bytes");
  std::array<uint32_t, kShortWordBytes> merged;  // merged[k]: what symbols k and k + 1 make
  const auto look_up = [&](size_t k) { merged[k] = merged_.find(symbols[k], symbols[k + 1]); };
  for (size_t k = 0; k + 1 < length; ++k) look_up(k);
  while (length > 1) {
    const auto best = std::min_element(merged.begin(), merged.begin() + length - 1);
    if (*best == PairTable::kAbsent) break;
    const size_t k = best - merged.begin();
    symbols[k] = static_cast<int32_t>(*best);
    std::copy(symbols + k + 2, symbols + length, symbols + k + 1);
    std::copy(best + 1, merged.begin() + length - 1, best);
    --length;
    if (k > 0) look_up(k - 1);
    if (k + 1 < length) look_up(k);
  }
  tokens.resize(begin + length);
}

void BpeTokenizer::append_by_heap(std::string_view word, std::vector<int32_t>& tokens) const {
  constexpr uint32_t kNone = UINT32_MAX;
  const uint32_t length = static_cast<uint32_t>(word.size());
  TRIREME_CHECK(word.size() < kNone, "a word of 4 GiB");
  // A list of symbols; a symbol that was merged into the one before it is -1.
  std::vector<int32_t> symbols(length);
  std::vector<uint32_t> previous(length), next(length);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto look_up = [&](uint32_t position) {
    if (position == kNone || next[position] == kNone) return;
    const uint32_t merged = merged_.find(symbols[position], symbols[next[position]]);
    if (merged != PairTable::kAbsent) candidates.push({merged, position});
  };
  for (uint32_t k = 0; k < length; ++k) {
    symbols[k] = token_of_byte(static_cast<uint8_t>(word[k]));
    previous[k] = k == 0 ? kNone : k - 1;
    next[k] = k + 1 == length ? kNone : k + 1;
  }
  for (uint32_t k = 0; k < length; ++k) look_up(k);
  while (!candidates.empty()) {
    const auto [merged, left] = candidates.top();
    candidates.pop();
    const uint32_t right = symbols[left] < 0 ? kNone : next[left];
    const bool is_stale = right == kNone || merged_.find(symbols[left], symbols[right]) != merged;
    if (is_stale) continue;
    symbols[left] = static_cast<int32_t>(merged);
    symbols[right] = -1;
    next[left] = next[right];
    if (next[left] != kNone) previous[next[left]] = left;
    look_up(previous[left]);
    look_up(left);
  }
  for (uint32_t k = 0; k != kNone && length > 0; k = next[k]) tokens.push_back(symbols[k]);
}

uint64_t BpeTokenizer::hash() const {
  return hash64(std::as_bytes(std::span(merges_)), hash64("bpe.gpt2"));
}

std::string BpeTokenizer::to_json() const {
  std::string merges = "  \"pre_tokenizer\": \"gpt2\",\n  \"merges\": [";
  for (size_t k = 0; k < merges_.size(); ++k) {
    const char* separator = k == 0 ? "" : k % 8 == 0 ? ",\n    " : ", ";
    merges += fmt::format("{}[{}, {}]", separator, merges_[k].left, merges_[k].right);
  }
  return print_tokenizer_json(*this, merges + "],\n");
}

}  // namespace trireme
