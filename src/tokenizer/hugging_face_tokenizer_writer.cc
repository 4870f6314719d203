// Writes the files in which the transformers library stores tokenizers.

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "tokenizer/foreign_vocabulary.h"
#include "tokenizer/spelled_tokenizer.h"

namespace trireme {
namespace {

using nlohmann::ordered_json;

ordered_json vocab_of(const SpelledTokenizer& spelled) {
  ordered_json vocab = ordered_json::object();
  // Entries are added one by one in the order of their numbers, because the library's own map keeps
  // no order.
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

ordered_json pre_tokenizer_of(const SpelledTokenizer& spelled) {
  if (spelled.pre_tokenizer == PreTokenizer::Gpt2) return byte_level(true);
  const ordered_json split = {{"type", "Split"},
                              {"pattern", {{"Regex", kLlama3Regex}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({split, byte_level(false)})}};
}

ordered_json added_token(const SpelledTokenizer& spelled, int32_t token, bool is_special,
                         bool is_first) {
  return {{"id", token},          {"content", spelled.tokens[static_cast<size_t>(token)]},
          {"single_word", false}, {"lstrip", false},
          {"rstrip", false},      {"normalized", !is_first},
          {"special", is_special}};
}

// Returns added_tokens in the order of their numbers, as Hugging Face's library expects.
ordered_json added_tokens_of(const SpelledTokenizer& spelled) {
  std::map<int32_t, ordered_json> by_number;
  for (const int32_t token : spelled.special) {
    by_number[token] = added_token(spelled, token, true, true);
  }
  for (const StrippingToken strip : spelled.stripping) {
    by_number[strip.token]["lstrip"] = strip.lstrip;
    by_number[strip.token]["rstrip"] = strip.rstrip;
  }
  for (const AddedToken added : spelled.added) {
    by_number[added.token] = added_token(spelled, added.token, false, added.is_first);
  }
  ordered_json list = ordered_json::array();
  for (auto& [number, token] : by_number) list.push_back(std::move(token));
  return list;
}

ordered_json tokenizer_json(const SpelledTokenizer& spelled) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens_of(spelled)},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer_of(spelled)},
          {"post_processor", spelled.post_processor.empty()
                                 ? ordered_json(nullptr)
                                 : parse_ordered_json(spelled.post_processor)},
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

std::string text_of(const ordered_json& object) { return lenient_json_text(object, 1) + "\n"; }

}  // namespace

Status write_hugging_face_tokenizer(const Tokenizer& tokenizer, int64_t seq_len,
                                    const std::string& folder) {
  TRIREME_TRY(spelled, spell(tokenizer));
  const ordered_json end_of_text = spelled.tokens[static_cast<size_t>(tokenizer.end_of_text())];
  const ordered_json begin_of_text =
      spelled.begin_of_text ? ordered_json(spelled.tokens[size_t(*spelled.begin_of_text)])
                            : ordered_json(nullptr);
  TRIREME_TRY_DONE(
      write_file_atomically(folder + "/tokenizer.json", text_of(tokenizer_json(spelled))));
  TRIREME_TRY_DONE(write_file_atomically(folder + "/tokenizer_config.json",
                                         text_of({{"tokenizer_class", "PreTrainedTokenizerFast"},
                                                  {"model_max_length", seq_len},
                                                  {"bos_token", begin_of_text},
                                                  {"eos_token", end_of_text},
                                                  {"clean_up_tokenization_spaces", false}})));
  ordered_json special = {{"eos_token", end_of_text}};
  if (spelled.begin_of_text) special["bos_token"] = begin_of_text;
  TRIREME_TRY_DONE(write_file_atomically(folder + "/special_tokens_map.json", text_of(special)));
  const bool is_complete_without_json = !spelled.whole_words && spelled.added.empty() &&
                                        spelled.stripping.empty() &&
                                        spelled.pre_tokenizer == PreTokenizer::Gpt2;
  if (!is_complete_without_json) return Done{};
  std::string merges = "#version: 0.2\n";
  for (const std::string& merge : spelled.merges) merges += merge + "\n";
  TRIREME_TRY_DONE(
      write_file_atomically(folder + "/vocab.json", json_text(vocab_of(spelled)) + "\n"));
  return write_file_atomically(folder + "/merges.txt", merges);
}

}  // namespace trireme
