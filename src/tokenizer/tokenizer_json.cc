#include "tokenizer/tokenizer_json.h"

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bounded_json.h"
#include "base/hash.h"
#include "base/nearest_name.h"
#include "tokenizer/bpe_tokenizer_json.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/char_tokenizer.h"
#include "tokenizer/foreign_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "trireme tokenizer";
constexpr int kTokenizerVersion = 1;

// Returns a field that has the kind for which `is_kind` asks.
Result<const json*> field_of(const json& object, const char* name, bool (json::*is_kind)() const,
                             const char* kind) {
  const auto field = object.find(name);
  if (field == object.end()) return damaged(fmt::format("has no \"{}\"", name));
  if (!((*field).*is_kind)()) return damaged(fmt::format("\"{}\" is not {}", name, kind));
  return &*field;
}

Result<uint32_t> small_number(const json& value, const std::string& where) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
    return damaged(where + " is not a number of a token or character");
  }
  return value.get<uint32_t>();
}

Result<std::unique_ptr<Tokenizer>> parse_char(const json& object) {
  TRIREME_TRY(field, field_of(object, "alphabet", &json::is_array, "a list"));
  std::vector<uint32_t> alphabet;
  for (const json& symbol : *field) {
    TRIREME_TRY(number, small_number(symbol, fmt::format("alphabet[{}]", alphabet.size())));
    alphabet.push_back(number);
  }
  TRIREME_TRY(tokenizer, CharTokenizer::make(std::move(alphabet)));
  return std::unique_ptr<Tokenizer>(std::make_unique<CharTokenizer>(std::move(tokenizer)));
}

Result<std::unique_ptr<Tokenizer>> parse_bpe(const json& object) {
  TRIREME_TRY(tokenizer, parse_bpe_fields(object));
  return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(std::move(tokenizer)));
}

Result<std::unique_ptr<Tokenizer>> parse_kind(const json& object) {
  TRIREME_TRY(field, field_of(object, "kind", &json::is_string, "a name"));
  const std::string kind = field->get<std::string>();
  if (kind == "bpe") return parse_bpe(object);
  if (kind == "char") return parse_char(object);
  if (kind == "byte") return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
  return damaged("\"kind\" is \"" + kind + "\"; known are \"bpe\", \"char\" and \"byte\"");
}

}  // namespace

std::string print_tokenizer_json(const Tokenizer& tokenizer, std::string_view fields) {
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"kind\": \"{}\",\n  \"vocab_size\": "
      "{},\n{}"
      "  \"checksum\": \"{}\"\n}}\n",
      kFormat, kTokenizerVersion, tokenizer.kind(), tokenizer.vocab_size(), fields,
      hex64(tokenizer.hash()));
}

Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view text) {
  return parse_tokenizer(text, {});
}

Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view text,
                                                   const ForeignTokenizerOptions& options) {
  if (text.empty()) return damaged("the file is empty");
  TRIREME_TRY(object, parse_bounded_json(text));
  if (object.is_object() && object.contains("model") && !object.contains("format")) {
    object = nullptr;  // frees this tree, because two trees of a text would use twice the memory
    TRIREME_TRY(foreign, parse_hugging_face_tokenizer(text, options));
    return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(std::move(foreign)));
  }
  const bool is_ours =
      object.is_object() && object.contains("format") && object["format"] == kFormat;
  if (!is_ours) {
    return damaged(
        "neither a tokenizer of trireme nor one of Hugging Face; make one with `trireme tokenizer "
        "train`");
  }
  TRIREME_TRY(version, field_of(object, "version", &json::is_number_integer, "a number"));
  if (*version != kTokenizerVersion) {
    return damaged(fmt::format("version {}; this is for {}", version->dump(), kTokenizerVersion));
  }
  TRIREME_TRY(vocab_size, field_of(object, "vocab_size", &json::is_number_integer, "a number"));
  TRIREME_TRY(checksum, field_of(object, "checksum", &json::is_string, "16 digits"));
  TRIREME_TRY(tokenizer, parse_kind(object));
  if (*vocab_size != tokenizer->vocab_size()) {
    return damaged(fmt::format("\"vocab_size\" is {}, the vocabulary has {}", vocab_size->dump(),
                               tokenizer->vocab_size()));
  }
  if (*checksum != hex64(tokenizer->hash())) {
    return damaged("the vocabulary does not match \"checksum\"");
  }
  return std::move(tokenizer);
}

}  // namespace trireme
