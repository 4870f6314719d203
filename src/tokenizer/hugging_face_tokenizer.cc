// Reads tokenizer.json of Hugging Face, and vocab.json with merges.txt.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/json_text.h"
#include "tokenizer/foreign_vocabulary.h"

namespace trireme {
namespace {

using nlohmann::json;

// Thrown by the readers below and caught where the text is parsed.
struct ReadError {
  Error error;
};

[[noreturn]] void fail(std::string message) {
  throw ReadError{{ErrorKind::Damaged, std::move(message)}};
}
// For valid settings that this tokenizer does not support.
[[noreturn]] void unsupported(std::string message) {
  throw ReadError{{ErrorKind::Infeasible, std::move(message)}};
}
void must(const Status& status) {
  if (!status.ok()) throw ReadError{status.error()};
}

json parse_object(std::string_view text, const char* what) {
  auto object = parse_bounded_json(text);
  if (!object.ok()) fail(fmt::format("{}: {}", what, object.error().message));
  if (!object->is_object()) fail(fmt::format("{}: not an object", what));
  return std::move(*object);
}

// Returns null if the key is absent.
const json& member_or_null(const json& object, const char* key) {
  static const json kNull;  // never modified
  if (!object.is_object())
    fail(fmt::format("expected an object with \"{}\", found {}", key, object.type_name()));
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

bool flag(const json& object, const char* key, bool otherwise) {
  const json& value = member_or_null(object, key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) fail(fmt::format("\"{}\" is not true or false", key));
  return value.get<bool>();
}

std::string word(const json& object, const char* key) {
  const json& value = member_or_null(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

int64_t number_of(const json& value, const char* where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{INT32_MAX}) {
    fail(fmt::format("{} has a number that is not a token", where));
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

void check_byte_level(const json& step) {
  if (flag(step, "add_prefix_space", true)) {
    unsupported(
        "pre_tokenizer: add_prefix_space is not supported, because decoding could not remove the "
        "space before the text");
  }
}

PreTokenizer of_regex(const std::string& regex) {
  if (regex == kLlama3Regex) return PreTokenizer::Llama3;
  if (regex == kGpt2Regex) return PreTokenizer::Gpt2;
  unsupported("pre_tokenizer: the pattern " + regex + " is neither GPT-2's nor Llama-3's");
}

// Accepts ByteLevel, or a Split with a known pattern followed by ByteLevel.
PreTokenizer read_pre_tokenizer(const json& pre_tokenizer) {
  if (pre_tokenizer.is_null())
    unsupported("pre_tokenizer is missing: not a byte-level BPE tokenizer");
  if (word(pre_tokenizer, "type") == "ByteLevel") {
    check_byte_level(pre_tokenizer);
    if (!flag(pre_tokenizer, "use_regex", true))
      unsupported("pre_tokenizer: ByteLevel without a pattern");
    return PreTokenizer::Gpt2;
  }
  const json& steps = member_or_null(pre_tokenizer, "pretokenizers");
  const bool is_known = word(pre_tokenizer, "type") == "Sequence" && steps.is_array() &&
                        steps.size() == 2 && word(steps[0], "type") == "Split" &&
                        word(steps[1], "type") == "ByteLevel";
  if (!is_known) {
    unsupported(
        "pre_tokenizer: neither ByteLevel nor a sequence of Split and ByteLevel: not a byte-level "
        "BPE tokenizer");
  }
  if (word(steps[0], "behavior") != "Isolated" || flag(steps[0], "invert", false)) {
    unsupported("pre_tokenizer: Split is not Isolated");
  }
  check_byte_level(steps[1]);
  if (flag(steps[1], "use_regex", true)) unsupported("pre_tokenizer: two patterns");
  return of_regex(word(member_or_null(steps[0], "pattern"), "Regex"));
}

void check_model(const json& object, const json& model) {
  const std::string type = word(model, "type");
  if (!type.empty() && type != "BPE")
    unsupported("model.type is \"" + type + "\"; BPE is supported");
  if (!member_or_null(object, "normalizer").is_null())
    unsupported("normalizer is not supported, because decoding could not restore the text");
  if (flag(model, "byte_fallback", false))
    unsupported("model.byte_fallback: not a byte-level vocabulary");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!word(model, key).empty())
      unsupported(fmt::format("model.{}: not a byte-level vocabulary", key));
  }
}

void read_vocab(const json& vocab, VocabularyBuilder& builder) {
  if (!vocab.is_object()) fail("the vocabulary is not an object");
  for (const auto& [spelling, number] : vocab.items())
    must(builder.add(spelling, number_of(number, "vocab")));
}

void read_merges(const json& merges, VocabularyBuilder& builder) {
  if (!merges.is_array()) fail("model.merges is not a list");
  for (const json& merge : merges) {
    if (merge.is_string()) {
      must(builder.add_merge_line(merge.get_ref<const std::string&>()));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      must(builder.add_merge(merge[0].get_ref<const std::string&>(),
                             merge[1].get_ref<const std::string&>()));
    } else {
      fail("model.merges has an entry that is neither \"a b\" nor [\"a\", \"b\"]");
    }
  }
}

// Adds a token of added_tokens, which is special unless it says "special": false. Refuses the flags
// of other added tokens that would change where they are found, or lose white space of every text.
void read_added_token(const json& token, VocabularyBuilder& builder) {
  const std::string content = word(token, "content");
  if (content.empty()) fail("added_tokens: a token without content");
  const int64_t number = number_of(member_or_null(token, "id"), "added_tokens");
  if (flag(token, "special", true)) {
    must(builder.add_special(content, number));
    const StrippingToken strip{int32_t(number), flag(token, "lstrip", false),
                               flag(token, "rstrip", false)};
    if (strip.lstrip || strip.rstrip) builder.strip(strip);
    return;
  }
  for (const char* key : {"single_word", "lstrip", "rstrip"}) {
    if (flag(token, key, false)) {
      unsupported(fmt::format("added_tokens: {} of \"{}\" is not supported", key, content));
    }
  }
  must(builder.add_added(content, number, !flag(token, "normalized", true)));
}

BpeTokenizer read_tokenizer(const json& object, const ForeignTokenizerOptions& options) {
  const json& model = member_or_null(object, "model");
  check_model(object, model);
  const PreTokenizer pre_tokenizer = read_pre_tokenizer(member_or_null(object, "pre_tokenizer"));
  VocabularyBuilder builder;
  read_vocab(member_or_null(model, "vocab"), builder);
  const json& added = member_or_null(object, "added_tokens");
  if (!added.is_null() && !added.is_array()) fail("added_tokens is not a list");
  for (const json& token : added) read_added_token(token, builder);
  read_merges(member_or_null(model, "merges"), builder);
  const json& post_processor = member_or_null(object, "post_processor");
  if (post_processor.is_object()) builder.keep_post_processor(json_text(post_processor));
  auto tokenizer = builder.finish(options, pre_tokenizer, flag(model, "ignore_merges", false));
  if (!tokenizer.ok()) throw ReadError{tokenizer.error()};
  return std::move(*tokenizer);
}

}  // namespace

Result<BpeTokenizer> parse_hugging_face_tokenizer(std::string_view text,
                                                  const ForeignTokenizerOptions& options) {
  try {
    return read_tokenizer(parse_object(text, "tokenizer.json"), options);
  } catch (const ReadError& failure) {
    return failure.error;
  }
}

Result<BpeTokenizer> parse_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                            const ForeignTokenizerOptions& options) {
  try {
    VocabularyBuilder builder;
    read_vocab(parse_object(vocab, "vocab.json"), builder);
    while (!merges.empty()) {
      std::string_view line = merges.substr(0, merges.find('\n'));
      merges.remove_prefix(std::min(merges.size(), line.size() + 1));
      if (line.ends_with('\r')) line.remove_suffix(1);
      // A merge may itself begin with "#".
      if (!line.empty() && !line.starts_with("#version")) must(builder.add_merge_line(line));
    }
    builder.make_unmade_special();
    return builder.finish(options, options.pre_tokenizer.value_or(PreTokenizer::Gpt2), false);
  } catch (const ReadError& failure) {
    return failure.error;
  }
}

}  // namespace trireme
