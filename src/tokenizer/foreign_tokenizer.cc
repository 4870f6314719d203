#include "tokenizer/foreign_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string name_in(const std::string& path) { return fs::path(path).filename().string(); }

bool is_vocab(const std::string& path) {
  return name_in(path) == "vocab.json" || name_in(path) == "encoder.json";
}

bool is_tiktoken(const std::string& path) {
  return path.ends_with(".tiktoken") || path.ends_with(".model");
}

// True for a protobuf whose first field is a list of pieces. A line of base64 begins with a letter.
bool is_sentencepiece(std::string_view text) { return text.starts_with('\n'); }

std::string text_of_token(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return "";
  const nlohmann::json& token = object[key];
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string()) {
    return token["content"].get<std::string>();
  }
  return "";
}

// Sets options that are empty from the files beside the tokenizer.
ForeignTokenizerOptions with_tokens_beside(const fs::path& path, ForeignTokenizerOptions options) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto text = read_text_file((path.parent_path() / name).string(), limits::kSmallFileBytes);
    if (!text.ok()) continue;
    const auto parsed = parse_bounded_json(*text);
    if (!parsed.ok()) continue;
    if (options.end_of_text.empty()) options.end_of_text = text_of_token(*parsed, "eos_token");
    if (options.begin_of_text.empty()) options.begin_of_text = text_of_token(*parsed, "bos_token");
  }
  return options;
}

Result<std::string> tokenizer_file_in(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "vocab.json", "encoder.json", "tokenizer.model"}) {
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) return (folder / name).string();
  }
  return Error{ErrorKind::Damaged,
               folder.string() + ": neither tokenizer.json, vocab.json nor tokenizer.model"};
}

Result<BpeTokenizer> load_vocab(const std::string& path, const ForeignTokenizerOptions& options) {
  const char* const merges = name_in(path) == "encoder.json" ? "vocab.bpe" : "merges.txt";
  TRIREME_TRY(vocab_text, read_text_file(path, limits::kTokenizerFileBytes));
  TRIREME_TRY(merges_text, read_text_file((fs::path(path).parent_path() / merges).string(),
                                          limits::kTokenizerFileBytes));
  return parse_vocab_and_merges(vocab_text, merges_text, options);
}

Result<std::unique_ptr<Tokenizer>> load_file(const std::string& path,
                                             const ForeignTokenizerOptions& options) {
  Result<BpeTokenizer> tokenizer = Error{};
  if (is_vocab(path)) {
    tokenizer = load_vocab(path, options);
  } else {
    TRIREME_TRY(text, read_text_file(path, limits::kTokenizerFileBytes));
    if (is_tiktoken(path) && is_sentencepiece(text)) {
      return Error{ErrorKind::Infeasible,
                   "a SentencePiece model, which joins and normalises spaces and falls back to "
                   "bytes: only byte-level BPE is read; train a tokenizer of your own with "
                   "`trireme tokenizer train`, or take a model with a byte-level one (Llama 3)"};
    }
    if (is_tiktoken(path)) {
      tokenizer = parse_tiktoken(text, options);
    } else {
      return parse_tokenizer(text, options);
    }
  }
  if (!tokenizer.ok()) return tokenizer.error();
  return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(std::move(*tokenizer)));
}

}  // namespace

bool is_foreign_tokenizer(const std::string& path) {
  std::error_code ignored;
  return is_vocab(path) || is_tiktoken(path) || fs::is_directory(path, ignored);
}

Result<std::unique_ptr<Tokenizer>> load_foreign_tokenizer(const std::string& path,
                                                          const ForeignTokenizerOptions& options) {
  std::error_code ignored;
  std::string file = path;
  if (fs::is_directory(path, ignored)) {
    TRIREME_TRY(found, tokenizer_file_in(path));
    file = found;
  }
  auto tokenizer = load_file(file, with_tokens_beside(file, options));
  if (!tokenizer.ok()) return with_context(tokenizer.error(), file);
  return tokenizer;
}

}  // namespace trireme
