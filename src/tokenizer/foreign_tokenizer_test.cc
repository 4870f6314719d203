#include "tokenizer/foreign_tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "base/philox.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/byte_spelling.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/char_tokenizer.h"
#include "tokenizer/foreign_vocabulary.h"
#include "tokenizer/special_tokens.h"

namespace trireme {
namespace {

using nlohmann::json;

// Makes text of a few syllables, which has many merges and overlaps.
std::string random_text(uint64_t seed, int num_parts) {
  static const char* const kParts[] = {"an", "na", "ban",      "a",  "b",  " ", " the", "'s",
                                       "\n", "12", "\xC3\xA9", "ss", " s", "!", "aa",   "\xE9"};
  std::string text;
  for (int k = 0; k < num_parts; ++k) {
    text += kParts[philox(RngKey{seed}, counter_of(0, uint64_t(k)))[0] % std::size(kParts)];
  }
  return text;
}

BpeTokenizer trained(int64_t vocab_size) {
  WordCounts words;
  const std::string text = random_text(1, 20000);
  for (std::string_view rest = text; !rest.empty();) {
    const size_t bytes = first_word_bytes(rest);
    words.add(rest.substr(0, bytes), 1);
    rest.remove_prefix(bytes);
  }
  return std::move(*train_bpe(words, {.vocab_size = vocab_size}));
}

// A trained vocabulary with shuffled tokens and two special tokens in front, as other programs'
// trainers leave it.
struct Shuffled {
  json vocab = json::object();
  json merges = json::array();
  std::vector<std::string> merge_lines;
  std::map<std::string, int64_t> numbers;  // number of each token by its bytes
};
Shuffled shuffled() {
  const BpeTokenizer tokenizer = trained(400);
  Shuffled result;
  const int64_t size = tokenizer.end_of_text();
  for (int32_t token = 0; token < size; ++token) {
    const std::string bytes(tokenizer.piece(token));
    const int64_t number = 2 + (token * 11 + 3) % size;
    result.vocab[spell_bytes(bytes)] = number;
    result.numbers[bytes] = number;
  }
  for (const BpeMerge& merge : tokenizer.merges()) {
    const std::string left = spell_bytes(tokenizer.piece(merge.left));
    const std::string right = spell_bytes(tokenizer.piece(merge.right));
    result.merges.push_back({left, right});
    result.merge_lines.push_back(left + " " + right);
  }
  return result;
}

json hugging_face(const Shuffled& parts) {
  return {{"version", "1.0"},
          {"added_tokens", {{{"id", 0}, {"content", "<pad>"}}, {{"id", 1}, {"content", "</s>"}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", parts.vocab}, {"merges", parts.merges}}}};
}

// Repeatedly joins the leftmost neighbours with the smallest rank. It uses none of our tables.
// Returns -1 if there is none.
using RankOf = std::function<int64_t(const std::string&, const std::string&)>;
std::vector<std::string> merge_naively(std::string_view word, const RankOf& rank_of) {
  std::vector<std::string> parts;
  for (char byte : word) parts.emplace_back(1, byte);
  while (true) {
    int64_t best = -1;
    size_t place = 0;
    for (size_t k = 0; k + 1 < parts.size(); ++k) {
      const int64_t rank = rank_of(parts[k], parts[k + 1]);
      if (rank >= 0 && (best < 0 || rank < best)) best = rank, place = k;
    }
    if (best < 0) return parts;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<int64_t>(place) + 1);
  }
}

void expect_naive_tokens(const Tokenizer& tokenizer, PreTokenizer pre_tokenizer, bool whole_words,
                         const std::map<std::string, int64_t>& numbers, const RankOf& rank_of) {
  for (uint64_t seed = 2; seed < 60; ++seed) {
    const std::string text = random_text(seed, 200) + std::string(60, 'a') + random_text(seed, 3);
    std::vector<int32_t> expected;
    for (std::string_view rest = text; !rest.empty();) {
      const std::string word(rest.substr(0, first_word_bytes(rest, pre_tokenizer)));
      rest.remove_prefix(word.size());
      if (whole_words && numbers.count(word) > 0) {
        expected.push_back(static_cast<int32_t>(numbers.at(word)));
        continue;
      }
      for (const std::string& part : merge_naively(word, rank_of)) {
        expected.push_back(static_cast<int32_t>(numbers.at(part)));
      }
    }
    const auto tokens = tokenizer.encode(text);
    ASSERT_EQ(tokens.value(), expected) << "seed " << seed;
    ASSERT_EQ(tokenizer.decode(*tokens), text);
  }
}

TEST(ForeignTokenizer, MergesOfATokenizerJsonAreAppliedInTheirOrderWhateverTheNumbers) {
  const Shuffled parts = shuffled();
  std::map<std::pair<std::string, std::string>, int64_t> ranks;
  for (size_t k = 0; k < parts.merges.size(); ++k) {
    ranks[{*bytes_of_spelling(parts.merges[k][0].get<std::string>()),
           *bytes_of_spelling(parts.merges[k][1].get<std::string>())}] = static_cast<int64_t>(k);
  }
  const RankOf rank_of = [&](const std::string& left, const std::string& right) {
    const auto found = ranks.find({left, right});
    return found == ranks.end() ? -1 : found->second;
  };
  json object = hugging_face(parts);
  const auto pairs = parse_hugging_face_tokenizer(json_text(object));
  ASSERT_TRUE(pairs.ok()) << pairs.error().message;
  EXPECT_EQ(pairs->end_of_text(), 1);
  expect_naive_tokens(*pairs, PreTokenizer::Gpt2, false, parts.numbers, rank_of);
  object["model"]["merges"] = parts.merge_lines;
  const auto lines = parse_hugging_face_tokenizer(json_text(object));
  ASSERT_TRUE(lines.ok()) << lines.error().message;
  EXPECT_EQ(lines->hash(), pairs->hash());

  object["model"]["ignore_merges"] = true;
  object["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", kLlama3Regex}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const auto llama3 = parse_hugging_face_tokenizer(json_text(object));
  ASSERT_TRUE(llama3.ok()) << llama3.error().message;
  EXPECT_NE(llama3->hash(), pairs->hash());
  expect_naive_tokens(*llama3, PreTokenizer::Llama3, true, parts.numbers, rank_of);
}

TEST(SpecialTokens, StandForTheirCharactersWhereThatIsAskedFor) {
  json object = hugging_face(shuffled());
  object["added_tokens"][0]["content"] = "</s>a";  // the longer one matches first
  const auto tokenizer = parse_hugging_face_tokenizer(json_text(object));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const SpecialTokenEncoder encoder(*tokenizer);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::string text;
    std::vector<int32_t> expected, tokens;
    for (uint64_t k = 0; k < 6; ++k) {
      const std::string part = random_text(seed * 10 + k, int(k));
      const auto plain = tokenizer->encode(part).value();
      text += part + (k % 2 ? "</s>a" : "</s>!");
      expected.insert(expected.end(), plain.begin(), plain.end());
      if (k % 2) {
        expected.push_back(0);
        continue;
      }
      expected.push_back(1);
      text.pop_back();
      text += "\n";  // so that the next part is encoded separately
      text += "</s>a";
      const auto line = tokenizer->encode("\n").value();
      expected.insert(expected.end(), line.begin(), line.end());
      expected.push_back(0);
    }
    WordCache cache;
    ASSERT_TRUE(encoder.append_tokens(text, cache, tokens).ok());
    EXPECT_EQ(tokens, expected) << text;
    EXPECT_EQ(tokenizer->decode(tokens), text);
    EXPECT_NE(tokenizer->encode(text).value(), expected);
  }
}

// Finds the tokens of `added` in a text from left to right, the longest at each place. Encodes the
// text between them with `plain`.
std::vector<int32_t> tokens_around(const Tokenizer& plain, std::string_view text,
                                   const std::map<std::string, int32_t>& added) {
  std::vector<int32_t> tokens;
  std::string between;
  const auto flush = [&] {
    const auto part = plain.encode(between).value();
    tokens.insert(tokens.end(), part.begin(), part.end());
    between.clear();
  };
  while (!text.empty()) {
    size_t longest = 0;
    for (const auto& [content, token] : added) {
      if (text.starts_with(content)) longest = std::max(longest, content.size());
    }
    if (longest == 0) {
      between += text[0];
      text.remove_prefix(1);
      continue;
    }
    flush();
    tokens.push_back(added.at(std::string(text.substr(0, longest))));
    text.remove_prefix(longest);
  }
  flush();
  return tokens;
}

TEST(AddedTokens, ThatAreNotSpecialStandForTheirCharactersInEveryText) {
  json object = hugging_face(shuffled());
  const auto plain = parse_hugging_face_tokenizer(json_text(object)).value();
  std::map<std::string, int32_t> added;
  auto number = static_cast<int32_t>(plain.vocab_size());
  for (const char* content : {"  ", "   ", "       ", "an the", " b", "\n  a"}) {
    object["added_tokens"].push_back(
        {{"id", number}, {"content", content}, {"special", false}, {"normalized", true}});
    added[content] = number++;
  }
  const auto parsed = parse_hugging_face_tokenizer(json_text(object));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const BpeTokenizer& tokenizer = *parsed;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::string text = random_text(seed, 60);
    const std::vector<int32_t> tokens = tokenizer.encode(text).value();
    ASSERT_EQ(tokens, tokens_around(plain, text, added)) << text;
    ASSERT_EQ(tokenizer.decode(tokens), text);
    const std::string_view begin = std::string_view(text).substr(0, text.size() / 2);
    const size_t split = tokenizer.last_split(begin);
    std::vector<int32_t> parts = tokenizer.encode(text.substr(0, split)).value();
    const auto rest = tokenizer.encode(text.substr(split)).value();
    parts.insert(parts.end(), rest.begin(), rest.end());
    ASSERT_EQ(parts, tokens) << "cut at " << split << ": " << text;
  }
  object["added_tokens"].back()["lstrip"] = true;
  EXPECT_NE(parse_hugging_face_tokenizer(json_text(object)).error().message.find("lstrip"),
            std::string::npos);
}

std::string base64(std::string_view bytes) {
  const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? uint8_t(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

TEST(ForeignTokenizer, RanksOfTiktokenMergeAnyTwoPartsOfAToken) {
  const BpeTokenizer tokenizer = trained(400);
  std::string text;
  std::map<std::string, int64_t> numbers;
  for (int32_t token = 0; token < tokenizer.end_of_text(); ++token) {
    text += base64(tokenizer.piece(token)) + " " + std::to_string(token) + "\n";
    numbers[std::string(tokenizer.piece(token))] = token;
  }
  const RankOf rank_of = [&](const std::string& left, const std::string& right) {
    const auto found = numbers.find(left + right);
    return found == numbers.end() ? -1 : found->second;
  };
  for (const PreTokenizer pre_tokenizer : {PreTokenizer::Gpt2, PreTokenizer::Llama3}) {
    const auto ranks = parse_tiktoken(text, {.pre_tokenizer = pre_tokenizer});
    ASSERT_TRUE(ranks.ok()) << ranks.error().message;
    EXPECT_EQ(ranks->end_of_text(), 399);
    expect_naive_tokens(*ranks, pre_tokenizer, true, numbers, rank_of);
    const auto again = parse_tokenizer(ranks->to_json());
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ((*again)->hash(), ranks->hash());
  }
  EXPECT_EQ(parse_tiktoken(text).error().kind, ErrorKind::Usage);
  EXPECT_NE(parse_tiktoken("IQ== 1\n").error().message.find("line 1: rank 1 where 0"),
            std::string::npos);
  EXPECT_NE(parse_tiktoken("IQ= 0\n").error().message.find("base64"), std::string::npos);
}

class TokenizerFiles : public testing::Test {
 protected:
  TokenizerFiles()
      : folder_(std::filesystem::temp_directory_path() /
                ("trireme_tokenizer_files." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TokenizerFiles() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

TEST_F(TokenizerFiles, OurOwnComesBackFromEveryFileAsWhatItWas) {
  const BpeTokenizer tokenizer = trained(400);
  ASSERT_TRUE(write_hugging_face_tokenizer(tokenizer, 128, folder_.string()).ok());
  for (const char* name : {"", "tokenizer.json", "vocab.json"}) {
    const auto again = load_tokenizer(path(name));
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ((*again)->hash(), tokenizer.hash()) << name;
    EXPECT_EQ((*again)->to_json(), tokenizer.to_json()) << name;
  }
}

TEST_F(TokenizerFiles, ForeignOnesComeBackWithTheSameTokens) {
  const Shuffled parts = shuffled();
  std::vector<BpeTokenizer> tokenizers;
  tokenizers.push_back(std::move(*parse_hugging_face_tokenizer(json_text(hugging_face(parts)))));
  json whole = hugging_face(parts);
  whole["model"]["ignore_merges"] = true;
  tokenizers.push_back(std::move(*parse_hugging_face_tokenizer(json_text(whole))));
  for (const BpeTokenizer& tokenizer : tokenizers) {
    const auto own = parse_tokenizer(tokenizer.to_json());
    ASSERT_TRUE(own.ok()) << own.error().message;
    EXPECT_EQ((*own)->hash(), tokenizer.hash());
    ASSERT_TRUE(write_hugging_face_tokenizer(tokenizer, 128, folder_.string()).ok());
    const auto again = load_tokenizer(path(""));
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ((*again)->hash(), tokenizer.hash());
  }
  const ByteTokenizer bytes;
  ASSERT_TRUE(write_hugging_face_tokenizer(bytes, 128, folder_.string()).ok());
  EXPECT_EQ((*load_tokenizer(path("")))->encode("caf\xE9").value(),
            bytes.encode("caf\xE9").value());
  const auto chars = CharTokenizer::make({'a', 'b'});
  EXPECT_EQ(write_hugging_face_tokenizer(*chars, 128, folder_.string()).error().kind,
            ErrorKind::Infeasible);
}

TEST_F(TokenizerFiles, FlagsOfAddedTokensAndWhatStandsAroundATextSurvive) {
  json object = hugging_face(shuffled());
  object["added_tokens"][0] = {{"id", 0}, {"content", "<s>"}, {"special", true}};
  object["added_tokens"].push_back(
      {{"id", 401}, {"content", "   "}, {"special", false}, {"normalized", true}});
  object["added_tokens"].push_back(
      {{"id", 402}, {"content", "<think>"}, {"special", false}, {"normalized", false}});
  object["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {{{"SpecialToken", 0}}}}};
  ASSERT_TRUE(write_file_atomically(path("tokenizer.json"), json_text(object)).ok());
  ASSERT_TRUE(write_file_atomically(path("tokenizer_config.json"),
                                    R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>"})")
                  .ok());
  const auto imported = load_tokenizer(path(""));
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const auto own = parse_tokenizer((*imported)->to_json());
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ((*own)->to_json(), (*imported)->to_json());
  const std::string out = path("out");
  std::filesystem::create_directories(out);
  ASSERT_TRUE(write_hugging_face_tokenizer(**own, 128, out).ok());
  const json exported = parse_json(read_text_file(out + "/tokenizer.json").value());
  EXPECT_EQ(exported["post_processor"], object["post_processor"]);
  ASSERT_EQ(exported["added_tokens"].size(), 4u);
  for (size_t k = 0; k < 4; ++k) {
    const json& token = exported["added_tokens"][k];
    EXPECT_EQ(token["content"], object["added_tokens"][k]["content"]);
    EXPECT_EQ(token["special"], k < 2) << token;
    EXPECT_EQ(token["normalized"], k == 2) << token;
  }
  const json config = parse_json(read_text_file(out + "/tokenizer_config.json").value());
  EXPECT_EQ(config["bos_token"], "<s>");
  EXPECT_EQ(config["eos_token"], "</s>");
  EXPECT_FALSE(std::filesystem::exists(out + "/vocab.json"));
  EXPECT_EQ((*load_tokenizer(out))->to_json(), (*imported)->to_json());
}

TEST_F(TokenizerFiles, AVocabularyWithoutASpecialTokenGetsOne) {
  const Shuffled parts = shuffled();
  json vocab = json::object();
  for (const auto& [spelling, number] : parts.vocab.items()) vocab[spelling] = int(number) - 2;
  std::string merges;
  for (const std::string& line : parts.merge_lines) merges += line + "\n";
  ASSERT_TRUE(write_file_atomically(path("vocab.json"), json_text(vocab)).ok());
  ASSERT_TRUE(write_file_atomically(path("merges.txt"), merges).ok());
  const auto tokenizer = load_tokenizer(path(""));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->end_of_text(), int32_t(vocab.size()));
  EXPECT_EQ((*tokenizer)->piece((*tokenizer)->end_of_text()), kEndOfText);
  ASSERT_TRUE(
      write_file_atomically(path("tokenizer_config.json"), R"({"eos_token": "</s>"})").ok());
  EXPECT_EQ((*load_tokenizer(path("")))->piece(int32_t(vocab.size())), "</s>");
}

TEST_F(TokenizerFiles, ASentencePieceModelIsRefusedByName) {
  // The first piece of a SentencePiece model: "<unk>", score 0, type 2.
  const char piece[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02";
  std::ofstream(path("tokenizer.model"), std::ios::binary) << std::string(piece, sizeof piece - 1);
  const auto refused = load_foreign_tokenizer(path("tokenizer.model"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Infeasible);
  EXPECT_NE(refused.error().message.find("SentencePiece"), std::string::npos);
}

TEST_F(TokenizerFiles, MergesMayBeginWithTheSignOfTheVersionLine) {
  std::string vocab = "{";
  for (int rank = 0; rank < 256; ++rank) {
    const char byte = static_cast<char>(byte_of_rank(rank));
    vocab += json_text(json(spell_bytes({&byte, 1}))) + ":" + std::to_string(rank) + ",";
  }
  const std::string merges = "#version: 0.2\r\n# #\n# $\n";
  const auto tokenizer =
      parse_vocab_and_merges(vocab + R"("##":256,"#$":257,"<|endoftext|>":258})", merges);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_TRUE(tokenizer->is_gpt2());
  EXPECT_EQ(tokenizer->encode("###$").value(), (std::vector<int32_t>{256, 257}));
}

TEST(ForeignTokenizer, WhatWouldEncodeDifferentlyIsRefused) {
  const json sound = hugging_face(shuffled());
  const std::tuple<const char*, json, const char*> patches[] = {
      {"/normalizer", {{"type", "NFC"}}, "normalizer"},
      {"/model/type", "Unigram", "Unigram"},
      {"/model/byte_fallback", true, "byte_fallback"},
      {"/model/end_of_word_suffix", "</w>", "end_of_word_suffix"},
      {"/pre_tokenizer/add_prefix_space", true, "add_prefix_space"},
      {"/pre_tokenizer/type", "Whitespace", "pre_tokenizer"},
      {"/added_tokens", json::array(), "number 0"},
      {"/model/vocab/zzz", 5, "number 5"},
      {"/model/vocab/zzz", 5000, "number 401"},
      {"/model/merges/0", "a", "two tokens"},
      {"/model/merges/0", {"a", "zzz"}, "zzz"},
      {"/added_tokens/1/content", "</t>", "no special token ends a text"},
  };
  for (const auto& [place, value, expected] : patches) {
    json object = sound;
    object[json::json_pointer(place)] = value;
    const auto tokenizer = parse_hugging_face_tokenizer(json_text(object));
    ASSERT_FALSE(tokenizer.ok()) << place;
    EXPECT_NE(tokenizer.error().message.find(expected), std::string::npos)
        << place << ": " << tokenizer.error().message;
  }
  json object = sound;
  object["added_tokens"][1]["content"] = "</t>";
  EXPECT_EQ(parse_hugging_face_tokenizer(json_text(object), {.end_of_text = "</t>"})->end_of_text(),
            1);
}

}  // namespace
}  // namespace trireme
