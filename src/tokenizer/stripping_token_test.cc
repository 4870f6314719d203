// Special tokens with lstrip or rstrip take white space as the tokenizers library (0.23.3) lets
// them. The expected tokens are those of its encode(text, add_special_tokens=False).

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "tokenizer/byte_spelling.h"
#include "tokenizer/foreign_tokenizer.h"
#include "tokenizer/special_tokens.h"

namespace trireme {
namespace {

using nlohmann::json;
using Tokens = std::vector<int32_t>;

// Tokens 0 to 255 are the bytes as in GPT-2, so 64 is "a", 65 is "b", 87 is "x" and 220 a space.
enum : int32_t { kEnd = 256, kLeft, kRight, kBoth, kPlain, kTwoSpaces, kTwoLines };

json special(int32_t token, const char* content, bool lstrip, bool rstrip) {
  return {{"id", token},      {"content", content},  {"single_word", false}, {"lstrip", lstrip},
          {"rstrip", rstrip}, {"normalized", false}, {"special", true}};
}

json tokenizer_file(bool has_spaces) {
  json vocab = json::object();
  for (int rank = 0; rank < 256; ++rank) {
    const char byte = static_cast<char>(byte_of_rank(rank));
    vocab[spell_bytes({&byte, 1})] = rank;
  }
  json added = {special(kEnd, "<|endoftext|>", false, false), special(kLeft, "<l>", true, false),
                special(kRight, "<r>", false, true), special(kBoth, "<b>", true, true),
                special(kPlain, "<n>", false, false)};
  if (has_spaces) {
    added.push_back(
        {{"id", kTwoSpaces}, {"content", "  "}, {"special", false}, {"normalized", false}});
    added.push_back(
        {{"id", kTwoLines}, {"content", "\n\n"}, {"special", false}, {"normalized", true}});
  }
  return {{"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}}}};
}

Tokens encoded(const Tokenizer& tokenizer, std::string_view text) {
  WordCache cache;
  Tokens tokens;
  EXPECT_TRUE(SpecialTokenEncoder(tokenizer).append_tokens(text, cache, tokens).ok());
  return tokens;
}

void expect_tokens_of_library(const Tokenizer& tokenizer) {
  const std::pair<const char*, Tokens> cases[] = {
      {"a <l> b", {64, kLeft, 220, 65}},
      {"a <r> b", {64, 220, kRight, 65}},
      {"a \n\t<b>\u3000 b", {64, kBoth, 65}},
      {"a <n> b", {64, 220, kPlain, 220, 65}},
      {"a <r> <l> b", {64, 220, kRight, kLeft, 220, 65}},
      {"a <r> <r> <b> <b>", {64, 220, kRight, kRight, kBoth, kBoth}},
      {"<r>", {kRight}},
      {"  <l>", {kLeft}},
      {"<b>  ", {kBoth}},
      {"a\u00a0<l>b", {64, kLeft, 65}},
      {"a\u200b<l>b", {64, 158, 222, 233, kLeft, 65}},  // no white space
      {"<r>   x", {kRight, 87}},
      {"x  <l>  ", {87, kLeft, 220, 220}},
      {"<r>     <l>", {kRight, kLeft}},
      {"a\n\n<r>\n\nb", {64, 198, 198, kRight, 65}},
      {"a\u0085<b>\u2028b", {64, kBoth, 65}},
      {"a\x1c<b>\x0b"
       "b",
       {64, 216, kBoth, 65}},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(encoded(tokenizer, text), expected) << text;
  }
}

TEST(StrippingTokens, TakeTheWhiteSpaceBesideThemAsTheLibrarySays) {
  const auto tokenizer = parse_hugging_face_tokenizer(json_text(tokenizer_file(false)));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  expect_tokens_of_library(*tokenizer);
  // Without --special their characters are text, which decoding restores.
  for (const char* text : {"a <l> b", "<b>  ", "x  <r>  "}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text).value()), text);
  }
  // A byte that is not UTF-8 is no white space.
  EXPECT_EQ(encoded(*tokenizer, " \x85<b>\xa0 ").size(), 5u);
}

// The library searches for all tokens first and then takes white space, which may hold some of
// them.
TEST(StrippingTokens, LeaveTheTokensThatStandInTheirWhiteSpace) {
  const auto tokenizer = parse_hugging_face_tokenizer(json_text(tokenizer_file(true)));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const std::pair<const char*, Tokens> cases[] = {
      {"  <l>", {kTwoSpaces, kLeft}},
      {"<b>  ", {kBoth, kTwoSpaces}},
      {"<r>   x", {kRight, kTwoSpaces, 220, 87}},
      {"<r>  x", {kRight, kTwoSpaces, 87}},
      {"x   <l>", {87, kTwoSpaces, kLeft}},
      {"x  <l>  ", {87, kTwoSpaces, kLeft, kTwoSpaces}},
      {"<r>     <l>", {kRight, kTwoSpaces, kTwoSpaces, kLeft}},
      {"\n\n <l>x", {kLeft, 87}},
      {"a\n\n<r>\n\nb", {64, kTwoLines, kRight, 65}},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(encoded(*tokenizer, text), expected) << text;
  }
}

TEST(StrippingTokens, AreKeptInOurFileAndOnExport) {
  const auto imported = parse_hugging_face_tokenizer(json_text(tokenizer_file(false)));
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const auto own = parse_tokenizer(imported->to_json());
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ((*own)->hash(), imported->hash());
  expect_tokens_of_library(**own);

  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("stripping-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(write_hugging_face_tokenizer(**own, 128, folder.string()).ok());
  const json exported = parse_json(read_text_file((folder / "tokenizer.json").string()).value());
  EXPECT_EQ(exported["added_tokens"], tokenizer_file(false)["added_tokens"]);
  EXPECT_FALSE(std::filesystem::exists(folder / "vocab.json")) << "it could not say lstrip";
  const auto again = load_tokenizer(folder.string());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ((*again)->to_json(), imported->to_json());
  std::filesystem::remove_all(folder);
}

TEST(StrippingTokens, MakeAnotherTokenizerAndMustBeSpecial) {
  json file = tokenizer_file(false);
  const BpeTokenizer tokenizer = parse_hugging_face_tokenizer(json_text(file)).value();
  file["added_tokens"][kPlain - kEnd]["rstrip"] = true;
  EXPECT_NE(parse_hugging_face_tokenizer(json_text(file))->hash(), tokenizer.hash());
  json own = parse_json(tokenizer.to_json());
  for (const int32_t token : {int32_t{64}, int32_t{5000}}) {
    own["stripping"][0]["token"] = token;
    const auto refused = parse_tokenizer(json_text(own));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::Damaged);
    EXPECT_NE(refused.error().message.find("stripping token"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme
