// The files in which the transformers library keeps tokenizers.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/byte_spelling.h"
#include "data/foreign_vocabulary.h"

namespace trireme {
namespace {

using nlohmann::ordered_json;

// A tokenizer as a list of spelled tokens and merges.
struct Spelled {
  std::vector<std::string> tokens;  // special ones as they are
  std::vector<int32_t> special;
  std::vector<std::string> merges;  // "a b"
  bool whole_words = false;
  PreTokenizer pre_tokenizer = PreTokenizer::Gpt2;
};

// What has no merges gets those that make every token from two others, the smaller numbers first:
// with these the library merges as the ranks say.
std::vector<std::string> merges_of_ranks(const Spelled& spelled, const BpeTokenizer& tokenizer) {
  std::map<std::string, int32_t, std::less<>> numbers;
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    if (!std::binary_search(spelled.special.begin(), spelled.special.end(), token)) {
      numbers.emplace(tokenizer.piece(token), token);
    }
  }
  std::vector<std::string> merges;
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    if (std::binary_search(spelled.special.begin(), spelled.special.end(), token)) continue;
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

Result<Spelled> spell(const Tokenizer& tokenizer) {
  Spelled spelled;
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  if (bpe == nullptr && tokenizer.kind() != "byte") {
    return Error{ErrorKind::Infeasible,
                 fmt::format("a tokenizer of kind \"{}\" has no form in tokenizer.json: it refuses "
                             "texts that a BPE tokenizer takes",
                             tokenizer.kind())};
  }
  spelled.special = {tokenizer.end_of_text()};
  if (bpe != nullptr) {
    spelled.special.assign(bpe->special().begin(), bpe->special().end());
    spelled.whole_words = bpe->whole_words();
    spelled.pre_tokenizer = bpe->pre_tokenizer();
  }
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    const bool is_special =
        std::binary_search(spelled.special.begin(), spelled.special.end(), token);
    spelled.tokens.push_back(is_special ? std::string(tokenizer.piece(token))
                                        : spell_bytes(tokenizer.piece(token)));
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

ordered_json vocab_of(const Spelled& spelled) {
  ordered_json vocab = ordered_json::object();
  // Added one by one: the library's own map keeps no order, so that of the numbers reads best.
  for (size_t token = 0; token < spelled.tokens.size(); ++token) {
    vocab.get_ref<ordered_json::object_t&>().emplace_back(spelled.tokens[token], token);
  }
  return vocab;
}

ordered_json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

ordered_json pre_tokenizer_of(const Spelled& spelled) {
  if (spelled.pre_tokenizer == PreTokenizer::Gpt2) return byte_level(true);
  const ordered_json split = {{"type", "Split"},
                              {"pattern", {{"Regex", kLlama3Regex}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({split, byte_level(false)})}};
}

ordered_json tokenizer_json(const Spelled& spelled) {
  ordered_json added = ordered_json::array();
  for (const int32_t token : spelled.special) {
    added.push_back({{"id", token},
                     {"content", spelled.tokens[token]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer_of(spelled)},
          {"post_processor", nullptr},
          {"decoder", byte_level(true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", spelled.whole_words},
            {"vocab", vocab_of(spelled)},
            {"merges", spelled.merges}}}};
}

std::string text_of(const ordered_json& object) {
  return object.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

Status write_hugging_face_tokenizer(const Tokenizer& tokenizer, int64_t seq_len,
                                    const std::string& folder) {
  TRIREME_TRY(spelled, spell(tokenizer));
  const std::string end_of_text = spelled.tokens[static_cast<size_t>(tokenizer.end_of_text())];
  TRIREME_TRY_DONE(
      write_file_atomically(folder + "/tokenizer.json", text_of(tokenizer_json(spelled))));
  TRIREME_TRY_DONE(write_file_atomically(folder + "/tokenizer_config.json",
                                         text_of({{"tokenizer_class", "PreTrainedTokenizerFast"},
                                                  {"model_max_length", seq_len},
                                                  {"bos_token", end_of_text},
                                                  {"eos_token", end_of_text},
                                                  {"clean_up_tokenization_spaces", false}})));
  TRIREME_TRY_DONE(
      write_file_atomically(folder + "/special_tokens_map.json",
                            text_of({{"bos_token", end_of_text}, {"eos_token", end_of_text}})));
  if (spelled.whole_words || spelled.pre_tokenizer != PreTokenizer::Gpt2) return Done{};
  std::string merges = "#version: 0.2\n";
  for (const std::string& merge : spelled.merges) merges += merge + "\n";
  TRIREME_TRY_DONE(write_file_atomically(folder + "/vocab.json", vocab_of(spelled).dump() + "\n"));
  return write_file_atomically(folder + "/merges.txt", merges);
}

}  // namespace trireme
