#include <fmt/format.h>

#include <algorithm>

#include "interchange/gguf_metadata.h"
#include "tokenizer/spelled_tokenizer.h"

namespace trireme {
namespace {

// The kind of a token for readers of GGUF.
enum class TokenKind : int64_t { Normal = 1, Control = 3, UserDefined = 4, Unused = 5 };

constexpr const char* kModel = "tokenizer.ggml.model";

// GGUF's name for a way to split text. It also says whether a word that is itself a token becomes
// that token.
struct Pre {
  const char* name;
  PreTokenizer pre_tokenizer;
  bool whole_words;
};
constexpr Pre kPres[] = {{"gpt-2", PreTokenizer::Gpt2, false},
                         {"llama-bpe", PreTokenizer::Llama3, true}};

const Pre* pre_of(const SpelledTokenizer& spelled) {
  for (const Pre& pre : kPres) {
    if (pre.pre_tokenizer == spelled.pre_tokenizer && pre.whole_words == spelled.whole_words)
      return &pre;
  }
  return nullptr;
}

template <typename T>
const T* value_of(const GgufHeader& header, const char* key) {
  const GgufValue* value = header.find(key);
  return value == nullptr ? nullptr : std::get_if<T>(&value->value);
}

}  // namespace

Status add_gguf_tokenizer(const Tokenizer* tokenizer, int64_t vocab_size, GgufHeader& header) {
  if (tokenizer == nullptr || tokenizer->kind() == "char") {
    header.values.emplace_back(kModel, gguf_string("none"));
    return Done{};
  }
  TRIREME_TRY(spelled, spell(*tokenizer));
  const Pre* pre = pre_of(spelled);
  if (pre == nullptr) {
    return Error{ErrorKind::Infeasible,
                 fmt::format("the tokenizer splits text as {} and {} words that are tokens whole; "
                             "GGUF has no name for this combination",
                             name_of(spelled.pre_tokenizer),
                             spelled.whole_words ? "takes" : "does not take")};
  }
  std::vector<int64_t> kinds(spelled.tokens.size(), int64_t(TokenKind::Normal));
  for (const int32_t token : spelled.special) kinds[size_t(token)] = int64_t(TokenKind::Control);
  for (const AddedToken added : spelled.added) {
    kinds[size_t(added.token)] = int64_t(TokenKind::UserDefined);
  }
  for (auto token = static_cast<int64_t>(spelled.tokens.size()); token < vocab_size; ++token) {
    spelled.tokens.push_back(fmt::format("[PAD{}]", token));
    kinds.push_back(int64_t(TokenKind::Unused));
  }
  const auto end_of_text = static_cast<uint64_t>(tokenizer->end_of_text());
  const auto begin_of_text =
      static_cast<uint64_t>(spelled.begin_of_text.value_or(int32_t(end_of_text)));
  header.values.emplace_back(kModel, gguf_string("gpt2"));  // byte-level BPE, for every family
  header.values.emplace_back("tokenizer.ggml.pre", gguf_string(pre->name));
  header.values.emplace_back("tokenizer.ggml.tokens", gguf_strings(std::move(spelled.tokens)));
  header.values.emplace_back("tokenizer.ggml.token_type", gguf_i32s(std::move(kinds)));
  header.values.emplace_back("tokenizer.ggml.merges", gguf_strings(std::move(spelled.merges)));
  header.values.emplace_back("tokenizer.ggml.bos_token_id", gguf_u32(begin_of_text));
  header.values.emplace_back("tokenizer.ggml.eos_token_id", gguf_u32(end_of_text));
  header.values.emplace_back("tokenizer.ggml.add_bos_token", gguf_bool(false));
  return Done{};
}

Result<std::unique_ptr<Tokenizer>> gguf_tokenizer_of(const GgufHeader& header) {
  const auto* model = value_of<std::string>(header, kModel);
  if (model == nullptr || *model == "none") return std::unique_ptr<Tokenizer>();
  const auto* pre_name = value_of<std::string>(header, "tokenizer.ggml.pre");
  const Pre* pre = std::find_if(std::begin(kPres), std::end(kPres), [&](const Pre& known) {
    return pre_name != nullptr && *pre_name == known.name;
  });
  if (*model != "gpt2" || pre == std::end(kPres)) {
    return Error{ErrorKind::Infeasible,
                 fmt::format("a tokenizer of model \"{}\", pre \"{}\" is not supported", *model,
                             pre_name == nullptr ? "" : *pre_name)};
  }
  const auto* tokens = value_of<std::vector<std::string>>(header, "tokenizer.ggml.tokens");
  const auto* kinds = value_of<std::vector<int64_t>>(header, "tokenizer.ggml.token_type");
  const auto* merges = value_of<std::vector<std::string>>(header, "tokenizer.ggml.merges");
  const auto* end_of_text = value_of<uint64_t>(header, "tokenizer.ggml.eos_token_id");
  if (tokens == nullptr || kinds == nullptr || merges == nullptr || end_of_text == nullptr ||
      kinds->size() != tokens->size() || *end_of_text >= tokens->size()) {
    return Error{ErrorKind::Damaged,
                 "tokenizer.ggml: tokens, token_type, merges or eos_token_id is missing or has a "
                 "wrong size"};
  }
  SpelledTokenizer spelled{.tokens = *tokens,
                           .merges = *merges,
                           .whole_words = pre->whole_words,
                           .pre_tokenizer = pre->pre_tokenizer,
                           .end_of_text = static_cast<int32_t>(*end_of_text)};
  while (!spelled.tokens.empty() &&
         (*kinds)[spelled.tokens.size() - 1] == int64_t(TokenKind::Unused))
    spelled.tokens.pop_back();
  for (size_t token = 0; token < spelled.tokens.size(); ++token) {
    if ((*kinds)[token] == int64_t(TokenKind::UserDefined))
      spelled.added.push_back({static_cast<int32_t>(token), false});
    else if ((*kinds)[token] != int64_t(TokenKind::Normal))
      spelled.special.push_back(static_cast<int32_t>(token));
  }
  const auto* begin_of_text = value_of<uint64_t>(header, "tokenizer.ggml.bos_token_id");
  if (begin_of_text != nullptr && *begin_of_text != *end_of_text &&
      *begin_of_text < spelled.tokens.size()) {
    spelled.begin_of_text = static_cast<int32_t>(*begin_of_text);
  }
  TRIREME_TRY(tokenizer, tokenizer_of(spelled));
  return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(std::move(tokenizer)));
}

}  // namespace trireme
