#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/char_tokenizer.h"
#include "tokenizer/unicode.h"

namespace trireme {
namespace {

std::vector<std::unique_ptr<Tokenizer>> one_of_each() {
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(std::make_unique<ByteTokenizer>());
  CharTrainer chars;
  chars.add("abc \xC3\xA9\n\xE4\xB8\xAD\xE9 \xF0\x9F\x98\x80");
  all.push_back(std::make_unique<CharTokenizer>(chars.train()));
  all.push_back(std::make_unique<BpeTokenizer>(
      std::move(BpeTokenizer::make({{64, 65}, {220, 256}, {257, 66}})).value()));
  return all;
}

TEST(Tokenizer, JsonKeepsEverything) {
  for (const auto& tokenizer : one_of_each()) {
    const auto loaded = parse_tokenizer(tokenizer->to_json());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ((*loaded)->to_json(), tokenizer->to_json());
    EXPECT_EQ((*loaded)->hash(), tokenizer->hash());
    ASSERT_EQ((*loaded)->vocab_size(), tokenizer->vocab_size());
    for (int32_t token = 0; token < tokenizer->vocab_size(); ++token) {
      EXPECT_EQ((*loaded)->piece(token), tokenizer->piece(token));
    }
    EXPECT_EQ((*loaded)->piece(tokenizer->end_of_text()), kEndOfText);
  }
}

TEST(Tokenizer, RoundTripsTextOfItsAlphabet) {
  for (const auto& tokenizer : one_of_each()) {
    for (const std::string text : {"", "abc abc", "\xE4\xB8\xAD \xE9\n", "\xF0\x9F\x98\x80"}) {
      const auto tokens = tokenizer->encode(text);
      ASSERT_TRUE(tokens.ok()) << tokens.error().message;
      EXPECT_EQ(tokenizer->decode(*tokens), text) << tokenizer->kind();
    }
  }
}

// Law: every change of the vocabulary is noticed, whatever it is, and nothing crashes.
TEST(Tokenizer, EveryChangedDigitAndTruncationIsRefused) {
  for (const auto& tokenizer : one_of_each()) {
    const std::string json = tokenizer->to_json();
    for (size_t position = 0; position < json.size(); ++position) {
      if (json.substr(position).find_first_not_of("\n }") == std::string::npos) break;
      EXPECT_FALSE(parse_tokenizer(json.substr(0, position)).ok()) << position;
      if (json[position] < '0' || json[position] > '9') continue;
      std::string changed = json;
      changed[position] = json[position] == '9' ? '1' : static_cast<char>(json[position] + 1);
      const auto result = parse_tokenizer(changed);
      ASSERT_FALSE(result.ok()) << changed;
      EXPECT_EQ(result.error().kind, ErrorKind::Damaged);
    }
  }
}

TEST(Tokenizer, MessagesNameThePlace) {
  const auto message_of = [](const std::string& json) {
    const auto result = parse_tokenizer(json);
    return result.ok() ? std::string("accepted") : result.error().message;
  };
  const std::string head = R"({"format":"trireme tokenizer","version":1,"vocab_size":258,)"
                           R"("checksum":"0000000000000000",)";
  EXPECT_NE(message_of("").find("empty"), std::string::npos);
  EXPECT_NE(message_of("{").find("column 2"), std::string::npos);
  EXPECT_NE(message_of("[]").find("trireme tokenizer train"), std::string::npos);
  EXPECT_NE(message_of(R"({"version":"1.0","model":{"type":"BPE"}})").find("pre_tokenizer"),
            std::string::npos);
  EXPECT_NE(message_of(head + R"("kind":"unigram"})").find("unigram"), std::string::npos);
  EXPECT_NE(message_of(head + R"("kind":"bpe","pre_tokenizer":"gpt2","merges":[[1,2],[1]]})")
                .find("merges[1]"),
            std::string::npos);
  EXPECT_NE(message_of(head + R"("kind":"bpe","pre_tokenizer":"gpt2","merges":[[1,256]]})")
                .find("merges[0]"),
            std::string::npos);
  EXPECT_NE(message_of(head + R"("kind":"bpe","pre_tokenizer":"gpt2","merges":[[1,2],[1,2]]})")
                .find("merges[1]"),
            std::string::npos);
  EXPECT_NE(message_of(head + R"("kind":"char","alphabet":[5,5]})").find("alphabet[1]"),
            std::string::npos);
}

TEST(Tokenizer, MergesThatDoubleForeverAreRefused) {
  std::vector<BpeMerge> merges;
  for (int32_t token = 64; merges.size() < 40; token = 255 + static_cast<int32_t>(merges.size())) {
    merges.push_back({token, token});
  }
  EXPECT_FALSE(BpeTokenizer::make(merges).ok());
}

TEST(CharTokenizer, AlphabetIsTheCharactersOfTheTextInOrder) {
  CharTrainer trainer;
  trainer.add("b\xC3\xA9");
  trainer.add("a\xE9 b");
  const CharTokenizer tokenizer = trainer.train();
  ASSERT_EQ(tokenizer.vocab_size(), 6);
  const std::string pieces[] = {" ", "a", "b", "\xC3\xA9", "\xE9", "<|endoftext|>"};
  for (int32_t token = 0; token < 6; ++token) EXPECT_EQ(tokenizer.piece(token), pieces[token]);
}

TEST(CharTokenizer, UnknownCharacterIsRefusedByName) {
  CharTrainer trainer;
  trainer.add("abc");
  const auto tokens = trainer.train().encode("ab\xE4\xB8\xAD");
  ASSERT_FALSE(tokens.ok());
  EXPECT_NE(tokens.error().message.find("U+4E2D"), std::string::npos) << tokens.error().message;
  EXPECT_NE(trainer.train().encode("\xFF").error().message.find("0xFF"), std::string::npos);
}

TEST(CharTokenizer, SplitNeverCutsACharacter) {
  CharTrainer trainer;
  const std::string text = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80z\xE9";
  trainer.add(text);
  const CharTokenizer tokenizer = trainer.train();
  const auto whole = *tokenizer.encode(text);
  for (size_t num_seen = 0; num_seen <= text.size(); ++num_seen) {
    const size_t split = tokenizer.last_split(text.substr(0, num_seen));
    auto tokens = *tokenizer.encode(text.substr(0, split));
    const auto rest = *tokenizer.encode(text.substr(split));
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    EXPECT_EQ(tokens, whole) << num_seen;
  }
}

}  // namespace
}  // namespace trireme
