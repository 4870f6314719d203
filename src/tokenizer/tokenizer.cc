#include "tokenizer/tokenizer.h"

#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "base/input_limits.h"
#include "tokenizer/foreign_tokenizer.h"

namespace trireme {

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text) const {
  WordCache cache;
  std::vector<int32_t> tokens;
  TRIREME_TRY_DONE(append_tokens(text, cache, tokens));
  return tokens;
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (int32_t token : tokens) text += piece(token);
  return text;
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path) {
  if (is_foreign_tokenizer(path)) return load_foreign_tokenizer(path);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return usage(path + ": no such file; make it with `trireme tokenizer train`");
  }
  TRIREME_TRY(text, read_text_file(path, limits::kTokenizerFileBytes));
  auto tokenizer = parse_tokenizer(text);
  if (!tokenizer.ok()) return with_context(tokenizer.error(), path);
  return tokenizer;
}

Status save_tokenizer(const Tokenizer& tokenizer, const std::string& path) {
  TRIREME_TRY_DONE(make_folders_of(path));
  return write_file_atomically(path, tokenizer.to_json());
}

}  // namespace trireme
