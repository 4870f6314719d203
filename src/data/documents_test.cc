#include "data/documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "data/synthetic_source.h"

namespace trireme {
namespace {

constexpr int32_t kEnd = 9;

struct Places {
  std::vector<int32_t> first, position;
};

Places places_of(const std::vector<int32_t>& tokens, int64_t seq_len) {
  Places places{std::vector<int32_t>(tokens.size()), std::vector<int32_t>(tokens.size())};
  place_documents(tokens, seq_len, kEnd, places.first, places.position);
  return places;
}

TEST(Documents, EndWithTheirLastToken) {
  const Places places = places_of({1, 2, kEnd, 3, kEnd, kEnd, 4, 5}, 8);
  EXPECT_EQ(places.first, (std::vector<int32_t>{0, 0, 0, 3, 3, 5, 6, 6}));
  EXPECT_EQ(places.position, (std::vector<int32_t>{0, 1, 2, 0, 1, 0, 0, 1}));
}

// A sequence without an end is one document, and none goes on in the next sequence.
TEST(Documents, BeginWithTheSequence) {
  const Places places = places_of({1, 2, 3, kEnd, 5, kEnd, 7, 8}, 4);
  EXPECT_EQ(places.first, (std::vector<int32_t>{0, 0, 0, 0, 0, 0, 2, 2}));
  EXPECT_EQ(places.position, (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 0, 1}));
  const Places without = places_of({1, 2, 3, 4}, 4);
  EXPECT_EQ(without.first, (std::vector<int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(without.position, (std::vector<int32_t>{0, 1, 2, 3}));
}

// The place of a token says where its document began; between the two no document ends.
TEST(Documents, PlacesAgreeWithTheTokens) {
  const SyntheticSource source(7, kEnd + 1);
  constexpr int64_t kSeqLen = 200;
  std::vector<int32_t> tokens(3 * kSeqLen), targets(tokens.size());
  read_sequences(source, 5, 3, tokens, targets);
  const Places places = places_of(tokens, kSeqLen);
  ASSERT_GT(std::count(tokens.begin(), tokens.end(), kEnd), 3);
  for (int64_t t = 0; t < int64_t(tokens.size()); ++t) {
    const int64_t in_sequence = t % kSeqLen, begin = t - places.position[size_t(t)];
    ASSERT_EQ(places.first[size_t(t)] + places.position[size_t(t)], in_sequence);
    ASSERT_EQ(std::count(tokens.begin() + begin, tokens.begin() + t, kEnd), 0);
    ASSERT_TRUE(begin % kSeqLen == 0 || tokens[size_t(begin - 1)] == kEnd);
  }
}

TEST(Documents, DoNotPredictTheNextOne) {
  constexpr int64_t kSeqLen = 300;
  const SyntheticSource plain(7, kEnd + 1);
  const DocumentSource masked(std::make_unique<SyntheticSource>(7, kEnd + 1), kEnd);
  EXPECT_EQ(plain.document_end(), -1);
  EXPECT_EQ(masked.document_end(), kEnd);
  EXPECT_EQ(masked.vocab_size(), plain.vocab_size());
  std::vector<int32_t> inputs(kSeqLen), targets(kSeqLen), same(kSeqLen), want(kSeqLen);
  plain.read_sample(4, same, want);
  masked.read_sample(4, inputs, targets);
  EXPECT_EQ(inputs, same);
  ASSERT_GT(std::count(inputs.begin(), inputs.end(), kEnd), 0);
  for (size_t t = 0; t < inputs.size(); ++t) {
    EXPECT_EQ(targets[t], inputs[t] == kEnd ? kUncountedTarget : want[t]);
  }
}

}  // namespace
}  // namespace trireme
