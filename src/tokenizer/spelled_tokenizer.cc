#include "tokenizer/spelled_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tokenizer/byte_spelling.h"
#include "tokenizer/foreign_vocabulary.h"

namespace trireme {
namespace {

// Makes merges for a tokenizer that has none: for every token the pairs of tokens that form it,
// smaller numbers first. With these merges the library merges as the ranks say.
std::vector<std::string> merges_of_ranks(const SpelledTokenizer& spelled,
                                         const BpeTokenizer& tokenizer) {
  std::map<std::string, int32_t, std::less<>> numbers;
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    if (!tokenizer.is_special_or_added(token)) numbers.emplace(tokenizer.piece(token), token);
  }
  std::vector<std::string> merges;
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.is_special_or_added(token)) continue;
    const std::string_view bytes = tokenizer.piece(token);
    std::vector<std::pair<int32_t, int32_t>> cuts;
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = numbers.find(bytes.substr(0, cut));
      const auto right = numbers.find(bytes.substr(cut));
      if (left != numbers.end() && right != numbers.end())
        cuts.emplace_back(left->second, right->second);
    }
    std::sort(cuts.begin(), cuts.end());
    for (const auto& [left, right] : cuts)
      merges.push_back(spelled.tokens[left] + " " + spelled.tokens[right]);
  }
  return merges;
}

}  // namespace

Result<SpelledTokenizer> spell(const Tokenizer& tokenizer) {
  SpelledTokenizer spelled{.end_of_text = tokenizer.end_of_text()};
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  if (bpe == nullptr && tokenizer.kind() != "byte") {
    return Error{
        ErrorKind::Infeasible,
        fmt::format("a tokenizer of kind \"{}\" cannot be written as tokenizer.json: it refuses "
                    "texts that a BPE tokenizer accepts",
                    tokenizer.kind())};
  }
  spelled.special = tokenizer.special_tokens();
  spelled.added = tokenizer.added_tokens();
  spelled.stripping = tokenizer.stripping_tokens();
  // In our own tokenizers, as in GPT-2, one token both ends and begins a text.
  if (bpe == nullptr || bpe->is_gpt2()) spelled.begin_of_text = spelled.end_of_text;
  if (bpe != nullptr) {
    if (bpe->begin_of_text()) spelled.begin_of_text = bpe->begin_of_text();
    spelled.post_processor = bpe->post_processor();
    spelled.whole_words = bpe->whole_words();
    spelled.pre_tokenizer = bpe->pre_tokenizer();
  }
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    const bool is_spelled =
        bpe == nullptr ? token != spelled.end_of_text : !bpe->is_special_or_added(token);
    spelled.tokens.push_back(is_spelled ? spell_bytes(tokenizer.piece(token))
                                        : std::string(tokenizer.piece(token)));
  }
  if (bpe == nullptr) return spelled;
  if (bpe->merges_by_rank()) {
    spelled.merges = merges_of_ranks(spelled, *bpe);
  } else {
    for (const BpeMerge& merge : bpe->merges()) {
      spelled.merges.push_back(spelled.tokens[merge.left] + " " + spelled.tokens[merge.right]);
    }
  }
  return spelled;
}

Result<BpeTokenizer> tokenizer_of(const SpelledTokenizer& spelled) {
  VocabularyBuilder builder;
  for (size_t token = 0; token < spelled.tokens.size(); ++token) {
    TRIREME_TRY_DONE(builder.add(spelled.tokens[token], static_cast<int64_t>(token)));
  }
  const auto size = static_cast<int64_t>(spelled.tokens.size());
  for (const int32_t token : spelled.special) {
    if (token < 0 || token >= size)
      return Error{ErrorKind::Damaged,
                   fmt::format("special token {} is not below {}", token, size)};
    TRIREME_TRY_DONE(builder.add_special(spelled.tokens[static_cast<size_t>(token)], token));
  }
  for (const AddedToken added : spelled.added) {
    if (added.token < 0 || added.token >= size)
      return Error{ErrorKind::Damaged,
                   fmt::format("added token {} is not below {}", added.token, size)};
    TRIREME_TRY_DONE(builder.add_added(spelled.tokens[static_cast<size_t>(added.token)],
                                       added.token, added.is_first));
  }
  for (const StrippingToken strip : spelled.stripping) builder.strip(strip);
  builder.keep_post_processor(spelled.post_processor);
  for (const std::string& merge : spelled.merges) TRIREME_TRY_DONE(builder.add_merge_line(merge));
  if (spelled.end_of_text < 0 || spelled.end_of_text >= size) {
    return Error{ErrorKind::Damaged, fmt::format("the end of text, token {}, is not below {}",
                                                 spelled.end_of_text, size)};
  }
  ForeignTokenizerOptions options{.end_of_text =
                                      spelled.tokens[static_cast<size_t>(spelled.end_of_text)]};
  if (spelled.begin_of_text) {
    options.begin_of_text = spelled.tokens[static_cast<size_t>(*spelled.begin_of_text)];
  }
  return builder.finish(options, spelled.pre_tokenizer, spelled.whole_words);
}

}  // namespace trireme
