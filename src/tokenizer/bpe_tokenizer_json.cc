#include "tokenizer/bpe_tokenizer_json.h"

#include <fmt/format.h>

#include <limits>
#include <unordered_set>

#include "base/json_text.h"
#include "tokenizer/byte_spelling.h"
#include "tokenizer/tokenizer_json.h"

namespace trireme {
namespace {

using nlohmann::json;

// Thrown by the readers below and caught by parse_bpe_fields.
struct FieldError {
  std::string message;
};

const json& member(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw FieldError{fmt::format("has no \"{}\"", name)};
  return *found;
}

const json& list_member(const json& object, const char* name) {
  const json& value = member(object, name);
  if (!value.is_array()) throw FieldError{fmt::format("\"{}\" is not a list", name)};
  return value;
}

int32_t token_number(const json& value, const std::string& where) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
    throw FieldError{where + " is not a number of a token"};
  }
  return value.get<int32_t>();
}

bool flag_member(const json& object, const char* name) {
  const json& value = member(object, name);
  if (!value.is_boolean()) throw FieldError{fmt::format("\"{}\" is not true or false", name)};
  return value.get<bool>();
}

PreTokenizer pre_tokenizer_member(const json& object) {
  const json& value = member(object, "pre_tokenizer");
  if (!value.is_string()) throw FieldError{"\"pre_tokenizer\" is not a name"};
  const auto known = pre_tokenizer_named(value.get<std::string>());
  if (known) return *known;
  throw FieldError{"\"pre_tokenizer\" is " + ascii_json_text(value) +
                   "; known are \"gpt2\" and \"llama3\""};
}

std::vector<BpeMerge> merges_member(const json& object) {
  const json& list = list_member(object, "merges");
  std::vector<BpeMerge> merges;
  merges.reserve(list.size());
  for (const json& pair : list) {
    const std::string where = fmt::format("merges[{}]", merges.size());
    if (!pair.is_array() || pair.size() != 2) throw FieldError{where + " is not a pair of tokens"};
    merges.push_back({token_number(pair[0], where), token_number(pair[1], where)});
  }
  return merges;
}

std::vector<AddedToken> added_member(const json& object) {
  std::vector<AddedToken> added;
  if (!object.contains("added")) return added;
  for (const json& token : list_member(object, "added")) {
    if (!token.is_object()) throw FieldError{"\"added\" has an entry that is not an object"};
    added.push_back(
        {token_number(member(token, "token"), "\"added\""), flag_member(token, "first")});
  }
  return added;
}

std::vector<StrippingToken> stripping_member(const json& object) {
  std::vector<StrippingToken> stripping;
  if (!object.contains("stripping")) return stripping;
  for (const json& token : list_member(object, "stripping")) {
    if (!token.is_object()) throw FieldError{"\"stripping\" has an entry that is not an object"};
    stripping.push_back({token_number(member(token, "token"), "\"stripping\""),
                         flag_member(token, "lstrip"), flag_member(token, "rstrip")});
  }
  return stripping;
}

std::string post_processor_member(const json& object) {
  if (!object.contains("post_processor")) return "";
  const json& value = object["post_processor"];
  if (!value.is_object()) throw FieldError{"\"post_processor\" is not an object"};
  return lenient_json_text(value);
}

// Special and added tokens are written as their text. Other tokens are spelled as in GPT-2.
BpeVocabulary read_vocabulary(const json& object) {
  BpeVocabulary vocabulary;
  vocabulary.pre_tokenizer = pre_tokenizer_member(object);
  vocabulary.merges_by_rank = flag_member(object, "merges_by_rank");
  vocabulary.whole_words = flag_member(object, "whole_words");
  vocabulary.end_of_text = token_number(member(object, "end_of_text"), "\"end_of_text\"");
  for (const json& number : list_member(object, "special")) {
    vocabulary.special.push_back(token_number(number, "\"special\""));
  }
  std::unordered_set<int32_t> unspelled(vocabulary.special.begin(), vocabulary.special.end());
  vocabulary.added = added_member(object);
  vocabulary.stripping = stripping_member(object);
  for (const AddedToken added : vocabulary.added) unspelled.insert(added.token);
  if (object.contains("begin_of_text")) {
    vocabulary.begin_of_text = token_number(object["begin_of_text"], "\"begin_of_text\"");
  }
  vocabulary.post_processor = post_processor_member(object);
  for (const json& token : list_member(object, "tokens")) {
    const auto number = static_cast<int32_t>(vocabulary.tokens.size());
    if (!token.is_string()) throw FieldError{fmt::format("tokens[{}] is not a string", number)};
    const std::string& text = token.get_ref<const std::string&>();
    const auto bytes = unspelled.contains(number) ? text : bytes_of_spelling(text);
    if (!bytes)
      throw FieldError{fmt::format("tokens[{}] has a character that spells no byte", number)};
    vocabulary.tokens.push_back(*bytes);
  }
  if (!vocabulary.merges_by_rank) vocabulary.merges = merges_member(object);
  return vocabulary;
}

// Prints entries with commas, several per line.
template <typename List, typename Print>
std::string print_list(const char* name, const List& list, Print&& print) {
  std::string text = fmt::format("  \"{}\": [", name);
  size_t k = 0;
  for (const auto& entry : list) {
    text += k == 0 ? "" : k % 8 == 0 ? ",\n    " : ", ";
    text += print(entry);
    ++k;
  }
  return text + "],\n";
}

std::string print_merges(const BpeTokenizer& tokenizer) {
  return print_list("merges", tokenizer.merges(), [](const BpeMerge& merge) {
    return fmt::format("[{}, {}]", merge.left, merge.right);
  });
}

}  // namespace

Result<BpeTokenizer> parse_bpe_fields(const json& object) {
  try {
    if (object.contains("tokens")) return BpeTokenizer::make(read_vocabulary(object));
    if (pre_tokenizer_member(object) != PreTokenizer::Gpt2) throw FieldError{"has no \"tokens\""};
    return BpeTokenizer::make(merges_member(object), post_processor_member(object));
  } catch (const FieldError& failure) {
    return Error{ErrorKind::Damaged, failure.message};
  }
}

std::string BpeTokenizer::to_json() const {
  std::string fields = fmt::format("  \"pre_tokenizer\": \"{}\",\n", name_of(pre_tokenizer_));
  if (!post_processor_.empty())
    fields += fmt::format("  \"post_processor\": {},\n", post_processor_);
  if (is_gpt2_) return print_tokenizer_json(*this, fields + print_merges(*this));
  fields +=
      fmt::format("  \"merges_by_rank\": {},\n  \"whole_words\": {},\n  \"end_of_text\": {},\n",
                  merges_by_rank_, whole_words_, end_of_text_);
  fields += print_list("special", special_, [](int32_t token) { return fmt::format("{}", token); });
  if (begin_of_text_) fields += fmt::format("  \"begin_of_text\": {},\n", *begin_of_text_);
  if (!added_.empty()) {
    fields += print_list("added", added_, [](AddedToken added) {
      return fmt::format("{{\"token\": {}, \"first\": {}}}", added.token, added.is_first);
    });
  }
  if (!stripping_.empty()) {
    fields += print_list("stripping", stripping_, [](StrippingToken strip) {
      return fmt::format("{{\"token\": {}, \"lstrip\": {}, \"rstrip\": {}}}", strip.token,
                         strip.lstrip, strip.rstrip);
    });
  }
  std::vector<std::string> tokens;
  for (int32_t token = 0; token < vocab_size(); ++token) {
    tokens.push_back(is_special_or_added(token) ? std::string(piece(token))
                                                : spell_bytes(piece(token)));
  }
  fields +=
      print_list("tokens", tokens, [](const std::string& token) { return json_text(json(token)); });
  if (!merges_by_rank_) fields += print_merges(*this);
  return print_tokenizer_json(*this, fields);
}

}  // namespace trireme
