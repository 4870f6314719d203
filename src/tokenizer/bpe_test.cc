#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/philox.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/char_tokenizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/text_encoder.h"

namespace trireme {
namespace {

using Tokens = std::vector<int32_t>;

// Makes repeating words of several scripts, with runs of one letter, spaces, contractions and bytes
// that are not UTF-8.
std::string random_text(uint64_t seed, size_t bytes) {
  static const char* const kParts[] = {"the ",
                                       "then ",
                                       "there ",
                                       "a",
                                       "aa",
                                       "aaa",
                                       "aaaaaaaa ",
                                       "banana ",
                                       "ban ",
                                       "it's ",
                                       "\n\n",
                                       "  ",
                                       "1234 ",
                                       "12",
                                       "...",
                                       "\xC3\xA9t\xC3\xA9 ",
                                       "=======",
                                       "\xE9 ",
                                       "x",
                                       "xyx",
                                       "xyxyxyxy ",
                                       "\xD1\x8F\xD1\x8F ",
                                       "\xE4\xB8\xAD\xE6\x96\x87\xE3\x80\x82"};
  std::string text;
  for (uint64_t k = 0; text.size() < bytes; ++k) {
    const PhiloxCounter words = philox(RngKey{seed}, counter_of(0, k));
    const uint64_t skewed = (uint64_t{words[0]} * words[0]) >> 32;
    text += kParts[(skewed * std::size(kParts)) >> 32];
    if (words[1] % 64 == 0) text += static_cast<char>(words[2]);
  }
  return text;
}

WordCounts count_words(std::string_view text) {
  WordCounts counts;
  while (!text.empty()) {
    const size_t bytes = first_word_bytes(text);
    counts.add(text.substr(0, bytes), 1);
    text.remove_prefix(bytes);
  }
  return counts;
}

void merge_everywhere(Tokens& word, BpeMerge merge, int32_t made) {
  Tokens merged;
  for (size_t k = 0; k < word.size(); ++k) {
    const bool applies = k + 1 < word.size() && word[k] == merge.left && word[k + 1] == merge.right;
    merged.push_back(applies ? made : word[k]);
    k += applies;
  }
  word = merged;
}

// The definition of BPE training: all pairs are counted again before every merge.
std::vector<BpeMerge> train_naively(const WordCounts& counts, int64_t num_merges,
                                    uint64_t min_count, std::vector<Tokens>* segmented = nullptr) {
  std::vector<Tokens> words(counts.words.size());
  for (uint32_t k = 0; k < counts.words.size(); ++k) {
    for (char byte : counts.words.word(k)) words[k].push_back(BpeTokenizer::token_of_byte(byte));
  }
  std::vector<BpeMerge> merges;
  for (int32_t made = 256; made < 256 + num_merges; ++made) {
    std::map<std::pair<int32_t, int32_t>, uint64_t> pairs;
    for (size_t w = 0; w < words.size(); ++w) {
      for (size_t k = 0; k + 1 < words[w].size(); ++k) {
        pairs[{words[w][k], words[w][k + 1]}] += counts.counts[w];
      }
    }
    std::pair<int32_t, int32_t> best;
    uint64_t best_count = 0;
    // Ascending, so the first of the most frequent pairs stays.
    for (const auto& [pair, count] : pairs) {
      if (count > best_count) best = pair, best_count = count;
    }
    if (best_count < min_count) break;
    merges.push_back({best.first, best.second});
    for (Tokens& word : words) merge_everywhere(word, merges.back(), made);
  }
  if (segmented != nullptr) *segmented = words;
  return merges;
}

TEST(BpeTrainer, LearnsTheMergesOfTheDefinition) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const WordCounts counts = count_words(random_text(seed, 200 << (seed % 6)));
    for (uint64_t min_count : {1, 2, 5}) {
      const auto naive = train_naively(counts, 150, min_count);
      const auto tokenizer =
          train_bpe(counts, {.vocab_size = 257 + 150, .min_pair_count = min_count});
      ASSERT_TRUE(tokenizer.ok());
      const std::vector<BpeMerge> learned(tokenizer->merges().begin(), tokenizer->merges().end());
      ASSERT_EQ(learned, naive) << "seed " << seed << " min_count " << min_count;
    }
  }
}

TEST(BpeTrainer, TextOfTheTrainingIsEncodedAsItWasSegmented) {
  const WordCounts counts = count_words(random_text(77, 6000));
  std::vector<Tokens> segmented;
  train_naively(counts, 200, 1, &segmented);
  const auto tokenizer = train_bpe(counts, {.vocab_size = 457, .min_pair_count = 1});
  for (uint32_t k = 0; k < counts.words.size(); ++k) {
    EXPECT_EQ(*tokenizer->encode(counts.words.word(k)), segmented[k]);
  }
}

TEST(BpeTrainer, OrderOfWordsChangesNothing) {
  const WordCounts counts = count_words(random_text(5, 5000));
  WordCounts reversed;
  for (uint32_t k = counts.words.size(); k-- > 0;) {
    reversed.add(counts.words.word(k), counts.counts[k]);
  }
  EXPECT_EQ(train_bpe(counts, {.vocab_size = 600})->to_json(),
            train_bpe(reversed, {.vocab_size = 600})->to_json());
}

TEST(BpeTrainer, CountsBeyond32BitsAreExact) {
  WordCounts counts;
  counts.add("ab", uint64_t{1} << 40);
  counts.add("cd", (uint64_t{1} << 40) + 1);
  const auto tokenizer = train_bpe(counts, {.vocab_size = 259});
  EXPECT_EQ(tokenizer->piece(256), "cd");
  EXPECT_EQ(tokenizer->piece(257), "ab");
}

TEST(BpeTrainer, TokensDoNotGrowBeyondTheirLimit) {
  WordCounts counts;
  counts.add(std::string(20000, 'a'), 10);
  const auto tokenizer = train_bpe(counts, {.vocab_size = 300});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  for (int32_t token = 0; token < tokenizer->end_of_text(); ++token) {
    EXPECT_LE(tokenizer->piece(token).size(), BpeTokenizer::kGreatestTokenBytes);
  }
}

TEST(BpeTrainer, VocabularyBelowTheBytesIsRefusedAndTheSmallestIsBytes) {
  EXPECT_FALSE(train_bpe({}, {.vocab_size = 256}).ok());
  const auto tokenizer = train_bpe({}, {.vocab_size = 257});
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_EQ(tokenizer->piece(0), "!");
  EXPECT_EQ(tokenizer->piece(220), " ");
  EXPECT_EQ(tokenizer->piece(256), "<|endoftext|>");
}

class BpeEncoding : public testing::Test {
 protected:
  BpeEncoding()
      : tokenizer_(
            std::move(train_bpe(count_words(random_text(1, 20000)), {.vocab_size = 700})).value()) {
  }
  BpeTokenizer tokenizer_;
};

TEST_F(BpeEncoding, ScanAndHeapAgree) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const std::string word =
        random_text(seed, 60).substr(0, seed % (BpeTokenizer::kShortWordBytes + 1));
    Tokens scanned, heaped;
    tokenizer_.append_by_scan(word, scanned);
    tokenizer_.append_by_heap(word, heaped);
    ASSERT_EQ(scanned, heaped) << word;
  }
}

TEST_F(BpeEncoding, DecodingIsExactForAnyBytes) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::string noise;
    for (uint64_t k = 0; k < 300; ++k) {
      noise += static_cast<char>(philox(RngKey{seed}, counter_of(1, k))[0]);
    }
    for (const std::string& text : {every_byte, noise, random_text(seed, 3000), std::string()}) {
      EXPECT_EQ(tokenizer_.decode(*tokenizer_.encode(text)), text);
    }
  }
  const std::string special = "a<|endoftext|>b";
  const Tokens tokens = *tokenizer_.encode(special);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), tokenizer_.end_of_text()), 0);
  EXPECT_EQ(tokenizer_.decode(tokens), special);
}

// A long word must not take quadratic time.
TEST_F(BpeEncoding, LongWordsAreFast) {
  const std::string text(1 << 18, 'a');
  const auto tokens = tokenizer_.encode(text);
  EXPECT_EQ(tokenizer_.decode(*tokens), text);
}

TEST_F(BpeEncoding, FullCacheForgetsNothingThatMatters) {
  WordCache cache;
  Tokens cached;
  std::string text;
  for (int k = 0; k < 300000; ++k) text.append(" ").append(std::to_string(k * 7919LL));
  ASSERT_TRUE(tokenizer_.append_tokens(text, cache, cached).ok());
  EXPECT_EQ(tokenizer_.decode(cached), text);
}

// With batches of any size and any number of threads, the tokens are those of each document as a
// whole.
void expect_streamed_equals_whole(const Tokenizer& tokenizer, int num_threads, size_t step) {
  std::vector<std::string> documents;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    documents.push_back(random_text(seed, seed % 5 == 0 ? 60000 : seed * 37));
  }
  documents[7] = documents[39] = "";
  ThreadTeam team(num_threads);
  TextEncoder encoder(tokenizer, team);
  TextBatch batch;
  Tokens tokens, expected;
  std::vector<size_t> ends, expected_ends;
  const auto flush = [&] {
    TextEncoder::Encoded encoded;
    ASSERT_TRUE(encoder.encode(batch, encoded).ok());
    for (size_t end : encoded.document_ends) ends.push_back(tokens.size() + end);
    tokens.insert(tokens.end(), encoded.tokens.begin(), encoded.tokens.end());
  };
  for (const std::string& document : documents) {
    const Tokens whole = *tokenizer.encode(document);
    expected.insert(expected.end(), whole.begin(), whole.end());
    expected.push_back(tokenizer.end_of_text());
    expected_ends.push_back(expected.size());
    for (size_t begin = 0; begin < document.size(); begin += step) {
      batch.text += document.substr(begin, step);
      if (batch.text.size() >= step) flush();
    }
    batch.document_ends.push_back(batch.text.size());
  }
  flush();
  EXPECT_TRUE(batch.text.empty());
  EXPECT_EQ(tokens, expected) << num_threads << " threads, batches of " << step;
  EXPECT_EQ(ends, expected_ends) << num_threads << " threads, batches of " << step;
}

TEST_F(BpeEncoding, StreamedInBatchesOnThreadsEqualsDocumentsEncodedWhole) {
  CharTrainer chars;
  for (uint64_t seed = 0; seed < 40; ++seed) chars.add(random_text(seed, 60000));
  const CharTokenizer char_tokenizer = chars.train();
  for (int num_threads : {1, 3}) {
    for (size_t step : {size_t{1000}, size_t{33333}, size_t{1} << 20}) {
      expect_streamed_equals_whole(tokenizer_, num_threads, step);
      expect_streamed_equals_whole(ByteTokenizer(), num_threads, step);
      expect_streamed_equals_whole(char_tokenizer, num_threads, step);
    }
  }
}

TEST(WordCounter, CountsTheSameInBatchesOnAnyNumberOfThreads) {
  const std::string text = random_text(3, 400000);
  const WordCounts whole = count_words(text);
  for (int num_threads : {1, 2, 4}) {
    ThreadTeam team(num_threads);
    WordCounter counter(team);
    TextBatch batch;
    for (size_t begin = 0; begin < text.size(); begin += 150001) {
      batch.text += text.substr(begin, 150001);
      counter.count(batch);
    }
    batch.document_ends.push_back(batch.text.size());
    counter.count(batch);
    WordCounts counts = counter.finish();
    ASSERT_EQ(counts.words.size(), whole.words.size());
    for (uint32_t k = 0; k < whole.words.size(); ++k) {
      const uint32_t index = counts.words.find_or_add(whole.words.word(k));
      EXPECT_EQ(counts.counts[index], whole.counts[k]);
    }
  }
}

}  // namespace
}  // namespace trireme
