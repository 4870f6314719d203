#include "tokenizer/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "tokenizer/byte_spelling.h"

namespace trireme {
namespace {

// Bounds the time of last_split() in a text in which an added token may cross every split.
constexpr int kMostSplitsTried = 1000;

// A pair that can be merged, at the position of its left symbol. The smallest rank merges first;
// among equal ranks the leftmost.
struct Candidate {
  uint32_t rank;
  uint32_t position;
  friend bool operator>(const Candidate& a, const Candidate& b) {
    return std::pair(a.rank, a.position) > std::pair(b.rank, b.position);
  }
};

}  // namespace

int32_t BpeTokenizer::token_of_byte(uint8_t byte) { return rank_of_byte(byte); }

void BpeTokenizer::add_token(std::string_view bytes) {
  bytes_ += bytes;
  begins_.push_back(bytes_.size());
}

Result<BpeTokenizer> BpeTokenizer::make(std::vector<BpeMerge> merges, std::string post_processor) {
  BpeTokenizer tokenizer;
  tokenizer.post_processor_ = std::move(post_processor);
  tokenizer.is_gpt2_ = true;
  tokenizer.merges_ = std::move(merges);
  for (int rank = 0; rank < kNumBytes; ++rank) {
    const char byte = static_cast<char>(byte_of_rank(rank));
    tokenizer.byte_tokens_[static_cast<uint8_t>(byte)] = rank;
    tokenizer.add_token({&byte, 1});
  }
  for (size_t k = 0; k < tokenizer.merges_.size(); ++k) {
    const auto [left, right] = tokenizer.merges_[k];
    const int64_t made = tokenizer.vocab_size();
    if (left < 0 || right < 0 || left >= made || right >= made) {
      return damaged(
          fmt::format("merges[{}]: ({}, {}) joins a token that is not there yet", k, left, right));
    }
    const std::string bytes =
        std::string(tokenizer.piece(left)) + std::string(tokenizer.piece(right));
    if (bytes.size() > kGreatestTokenBytes) {
      return damaged(fmt::format("merges[{}]: ({}, {}) makes a token of more than 4096 bytes", k,
                                 left, right));
    }
    tokenizer.add_token(bytes);
    tokenizer.made_.push_back(static_cast<int32_t>(made));
    TRIREME_TRY_DONE(tokenizer.add_merge(k));
  }
  tokenizer.end_of_text_ = static_cast<int32_t>(tokenizer.vocab_size());
  tokenizer.special_ = {tokenizer.end_of_text_};
  tokenizer.add_token(kEndOfText);
  return tokenizer;
}

Status BpeTokenizer::add_merge(size_t rank) {
  const auto [left, right] = merges_[rank];
  uint32_t& place = ranks_.find_or_add(left, right);
  if (place != PairTable::kAbsent) {
    return damaged(fmt::format("merges[{}]: ({}, {}) was merged before", rank, left, right));
  }
  place = static_cast<uint32_t>(rank);
  return Done{};
}

namespace {

// True if the merges make the tokens in order, as in GPT-2's form.
bool has_gpt2_form(const BpeVocabulary& vocabulary) {
  const size_t size = vocabulary.tokens.size();
  if (vocabulary.merges_by_rank || vocabulary.whole_words ||
      vocabulary.pre_tokenizer != PreTokenizer::Gpt2 || !vocabulary.added.empty() ||
      !vocabulary.stripping.empty() ||
      size != BpeTokenizer::kNumBytes + vocabulary.merges.size() + 1 ||
      vocabulary.special != std::vector<int32_t>{static_cast<int32_t>(size - 1)} ||
      vocabulary.tokens.back() != kEndOfText) {
    return false;
  }
  for (int rank = 0; rank < BpeTokenizer::kNumBytes; ++rank) {
    if (vocabulary.tokens[rank] != std::string(1, static_cast<char>(byte_of_rank(rank))))
      return false;
  }
  for (size_t k = 0; k < vocabulary.merges.size(); ++k) {
    const size_t made = BpeTokenizer::kNumBytes + k;
    const auto [left, right] = vocabulary.merges[k];
    const bool is_earlier = left >= 0 && right >= 0 && size_t(left) < made && size_t(right) < made;
    if (!is_earlier ||
        vocabulary.tokens[left] + vocabulary.tokens[right] != vocabulary.tokens[made]) {
      return false;
    }
  }
  return true;
}

}  // namespace

Result<BpeTokenizer> BpeTokenizer::make(BpeVocabulary vocabulary) {
  if (vocabulary.tokens.size() > size_t{INT32_MAX}) return damaged("more than 2^31 tokens");
  if (has_gpt2_form(vocabulary)) {
    return make(std::move(vocabulary.merges), std::move(vocabulary.post_processor));
  }
  BpeTokenizer tokenizer;
  tokenizer.special_ = std::move(vocabulary.special);
  tokenizer.end_of_text_ = vocabulary.end_of_text;
  tokenizer.merges_by_rank_ = vocabulary.merges_by_rank;
  tokenizer.whole_words_ = vocabulary.whole_words;
  tokenizer.pre_tokenizer_ = vocabulary.pre_tokenizer;
  tokenizer.begin_of_text_ = vocabulary.begin_of_text;
  tokenizer.post_processor_ = std::move(vocabulary.post_processor);
  tokenizer.added_ = std::move(vocabulary.added);
  tokenizer.stripping_ = std::move(vocabulary.stripping);
  for (const std::string& token : vocabulary.tokens) {
    if (token.empty()) return damaged(fmt::format("token {} is empty", tokenizer.vocab_size()));
    if (token.size() > kGreatestTokenBytes)
      return damaged(fmt::format("token {} has more than 4096 bytes", tokenizer.vocab_size()));
    tokenizer.add_token(token);
  }
  TRIREME_TRY_DONE(tokenizer.add_added_tokens());
  TRIREME_TRY_DONE(tokenizer.add_numbers_of_bytes());
  TRIREME_TRY_DONE(tokenizer.check_stripping_tokens());
  if (tokenizer.merges_by_rank_) TRIREME_TRY_DONE(tokenizer.add_merges_by_rank());
  tokenizer.merges_ = std::move(vocabulary.merges);
  for (size_t rank = 0; rank < tokenizer.merges_.size(); ++rank) {
    const auto [left, right] = tokenizer.merges_[rank];
    const int64_t size = tokenizer.vocab_size();
    if (left < 0 || right < 0 || left >= size || right >= size) {
      return damaged(
          fmt::format("merges[{}]: ({}, {}) are not tokens below {}", rank, left, right, size));
    }
    const auto made = tokenizer.numbers_.find(std::string(tokenizer.piece(left)) +
                                              std::string(tokenizer.piece(right)));
    if (made == tokenizer.numbers_.end())
      return damaged(fmt::format("merges[{}]: ({}, {}) makes no token", rank, left, right));
    tokenizer.made_.push_back(made->second);
    TRIREME_TRY_DONE(tokenizer.add_merge(rank));
  }
  if (!tokenizer.whole_words_) tokenizer.numbers_.clear();
  return tokenizer;
}

bool BpeTokenizer::is_special_or_added(int32_t token) const {
  const auto added =
      std::lower_bound(added_.begin(), added_.end(), token,
                       [](AddedToken known, int32_t wanted) { return known.token < wanted; });
  return (added != added_.end() && added->token == token) ||
         std::binary_search(special_.begin(), special_.end(), token);
}

Status BpeTokenizer::add_added_tokens() {
  for (size_t i = 0; i < added_.size(); ++i) {
    const int32_t token = added_[i].token;
    const bool is_sound = token >= 0 && token < vocab_size() &&
                          (i == 0 || added_[i - 1].token < token) &&
                          !std::binary_search(special_.begin(), special_.end(), token);
    if (!is_sound) {
      return damaged(fmt::format(
          "added token {} does not exist, is special or is not in ascending order", token));
    }
    (added_[i].is_first ? first_matches_ : matches_).add(piece(token), token);
  }
  return Done{};
}

Status BpeTokenizer::check_stripping_tokens() const {
  for (size_t i = 0; i < stripping_.size(); ++i) {
    const int32_t token = stripping_[i].token;
    const bool is_sound = std::binary_search(special_.begin(), special_.end(), token) &&
                          (i == 0 || stripping_[i - 1].token < token);
    if (is_sound) continue;
    return damaged(
        fmt::format("stripping token {} is no special token or is not in ascending order", token));
  }
  return Done{};
}

Status BpeTokenizer::add_numbers_of_bytes() {
  for (size_t i = 0; i < special_.size(); ++i) {
    const bool is_sound =
        special_[i] >= 0 && special_[i] < vocab_size() && (i == 0 || special_[i - 1] < special_[i]);
    if (!is_sound)
      return damaged(
          fmt::format("special token {} does not exist or is not in ascending order", special_[i]));
  }
  if (!std::binary_search(special_.begin(), special_.end(), end_of_text_)) {
    return damaged(fmt::format("the end of text, token {}, is no special token", end_of_text_));
  }
  if (begin_of_text_ && !std::binary_search(special_.begin(), special_.end(), *begin_of_text_)) {
    return damaged(
        fmt::format("the begin of text, token {}, is no special token", *begin_of_text_));
  }
  for (int32_t token = 0; token < vocab_size(); ++token) {
    if (is_special_or_added(token)) continue;
    const auto [other, is_new] = numbers_.emplace(piece(token), token);
    if (!is_new)
      return damaged(fmt::format("tokens {} and {} have the same bytes", other->second, token));
  }
  // Merges may also make an added token, unless another token has its bytes.
  for (const AddedToken added : added_) {
    numbers_.emplace(piece(added.token), added.token);
  }
  for (int byte = 0; byte < kNumBytes; ++byte) {
    const auto token = numbers_.find(std::string(1, static_cast<char>(byte)));
    if (token == numbers_.end()) {
      return damaged(fmt::format("no token for the byte {}: not a byte-level vocabulary", byte));
    }
    byte_tokens_[byte] = token->second;
  }
  return Done{};
}

Status BpeTokenizer::add_merges_by_rank() {
  made_.resize(static_cast<size_t>(vocab_size()));
  std::iota(made_.begin(), made_.end(), 0);
  std::string part;
  for (int32_t token = 0; token < vocab_size(); ++token) {
    if (is_special_or_added(token)) continue;
    const std::string_view bytes = piece(token);
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = numbers_.find(part.assign(bytes.substr(0, cut)));
      if (left == numbers_.end()) continue;
      const auto right = numbers_.find(part.assign(bytes.substr(cut)));
      if (right != numbers_.end())
        ranks_.find_or_add(left->second, right->second) = static_cast<uint32_t>(token);
    }
  }
  return Done{};
}

std::string_view BpeTokenizer::piece(int32_t token) const {
  TRIREME_CHECK(token >= 0 && token < vocab_size(), "token " + std::to_string(token));
  return std::string_view(bytes_).substr(begins_[token], begins_[token + 1] - begins_[token]);
}

size_t BpeTokenizer::last_split(std::string_view text) const {
  size_t split = last_word_split(text, pre_tokenizer_);
  for (int tried = 0; split > 0 && tried < kMostSplitsTried; ++tried) {
    if (!first_matches_.may_cross(text, split) && !matches_.may_cross(text, split)) return split;
    split = last_word_split(text.substr(0, split), pre_tokenizer_);
  }
  return 0;
}

Status BpeTokenizer::append_tokens(std::string_view text, WordCache& cache,
                                   std::vector<int32_t>& tokens) const {
  return first_matches_.split(text, tokens, [&](std::string_view part) {
    return matches_.split(
        part, tokens, [&](std::string_view words) { return append_words(words, cache, tokens); });
  });
}

Status BpeTokenizer::append_words(std::string_view text, WordCache& cache,
                                  std::vector<int32_t>& tokens) const {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, first_word_bytes(text, pre_tokenizer_));
    text.remove_prefix(word.size());
    cache.append(word, tokens, [this](std::string_view unknown, std::vector<int32_t>& out) {
      append_word(unknown, out);
    });
  }
  return Done{};
}

void BpeTokenizer::append_word(std::string_view word, std::vector<int32_t>& tokens) const {
  if (whole_words_ && word.size() <= kGreatestTokenBytes) {
    if (const auto found = numbers_.find(std::string(word)); found != numbers_.end()) {
      tokens.push_back(found->second);
      return;
    }
  }
  word.size() <= kShortWordBytes ? append_by_scan(word, tokens) : append_by_heap(word, tokens);
}

void BpeTokenizer::append_by_scan(std::string_view word, std::vector<int32_t>& tokens) const {
  const size_t begin = tokens.size();
  for (char byte : word) tokens.push_back(byte_tokens_[static_cast<uint8_t>(byte)]);
  int32_t* symbols = tokens.data() + begin;
  size_t length = word.size();
  TRIREME_CHECK(length <= kShortWordBytes, "a word of " + std::to_string(length) + " bytes");
  // ranks[k] is the rank of merging symbols k and k + 1.
  std::array<uint32_t, kShortWordBytes> ranks;
  const auto look_up = [&](size_t k) { ranks[k] = ranks_.find(symbols[k], symbols[k + 1]); };
  for (size_t k = 0; k + 1 < length; ++k) look_up(k);
  while (length > 1) {
    const auto best = std::min_element(ranks.begin(), ranks.begin() + length - 1);
    if (*best == PairTable::kAbsent) break;
    const size_t k = best - ranks.begin();
    symbols[k] = made_[*best];
    std::copy(symbols + k + 2, symbols + length, symbols + k + 1);
    std::copy(best + 1, ranks.begin() + length - 1, best);
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
  // A list of symbols. A symbol that was merged into the one before it is -1.
  std::vector<int32_t> symbols(length);
  std::vector<uint32_t> previous(length), next(length);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto look_up = [&](uint32_t position) {
    if (position == kNone || next[position] == kNone) return;
    const uint32_t rank = ranks_.find(symbols[position], symbols[next[position]]);
    if (rank != PairTable::kAbsent) candidates.push({rank, position});
  };
  for (uint32_t k = 0; k < length; ++k) {
    symbols[k] = byte_tokens_[static_cast<uint8_t>(word[k])];
    previous[k] = k == 0 ? kNone : k - 1;
    next[k] = k + 1 == length ? kNone : k + 1;
  }
  for (uint32_t k = 0; k < length; ++k) look_up(k);
  while (!candidates.empty()) {
    const auto [rank, left] = candidates.top();
    candidates.pop();
    const uint32_t right = symbols[left] < 0 ? kNone : next[left];
    const bool is_stale = right == kNone || ranks_.find(symbols[left], symbols[right]) != rank;
    if (is_stale) continue;
    symbols[left] = made_[rank];
    symbols[right] = -1;
    next[left] = next[right];
    if (next[left] != kNone) previous[next[left]] = left;
    look_up(previous[left]);
    look_up(left);
  }
  for (uint32_t k = 0; k != kNone && length > 0; k = next[k]) tokens.push_back(symbols[k]);
}

uint64_t BpeTokenizer::hash() const {
  if (is_gpt2_) return hash64(std::as_bytes(std::span(merges_)), hash64("bpe.gpt2"));
  uint64_t hash = hash64(fmt::format("bpe.{}.{}.{}.{}", name_of(pre_tokenizer_), merges_by_rank_,
                                     whole_words_, end_of_text_));
  hash = hash64(bytes_, hash);
  hash = hash64(std::as_bytes(std::span(begins_)), hash);
  hash = hash64(std::as_bytes(std::span(special_)), hash);
  for (const AddedToken added : added_) {
    hash = hash64(fmt::format("added.{}.{}", added.token, added.is_first), hash);
  }
  for (const StrippingToken strip : stripping_) {
    hash = hash64(fmt::format("stripping.{}.{}.{}", strip.token, strip.lstrip, strip.rstrip), hash);
  }
  return hash64(std::as_bytes(std::span(merges_)), hash);
}

}  // namespace trireme
