#include "jobs/megatron_stages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

namespace trireme {
namespace {

using Layers = std::vector<int64_t>;

Layers layers_of(const std::vector<MegatronStage>& stages) {
  Layers layers;
  for (const MegatronStage& stage : stages) layers.push_back(stage.layers);
  return layers;
}

TEST(MegatronStages, CopiesOfLettersAndPartsAreWrittenOut) {
  const std::vector<std::pair<std::string, Layers>> cases = {
      {"Et*7|t*9|t*9|t*7L", {7, 9, 9, 7}},
      {"Ett|(tt|)*6L", {2, 2, 2, 2, 2, 2, 2, 0}},
      {"Ettt|(tt|)*3,m|L", {3, 2, 2, 2, 0, 0}},
      {"E(t|t)*2L", {1, 2, 1}},
      {"E(t*2|)*2 tL", {2, 2, 1}},
      {"EttL", {2}},
      {"E|L", {0, 0}},
  };
  for (const auto& [text, layers] : cases) {
    const auto stages = parse_megatron_stages(text, 1000);
    ASSERT_TRUE(stages) << text;
    EXPECT_EQ(layers_of(*stages), layers) << text;
    EXPECT_TRUE(stages->front().has_embedding) << text;
    EXPECT_TRUE(stages->back().has_loss) << text;
  }
  EXPECT_EQ(parse_megatron_stages("Et|tmmL", 100)->back().ahead, 2);
}

TEST(MegatronStages, OtherTextIsNoListOfStages) {
  for (const std::string text :
       {"", "t", "tEL", "Et", "EtLt", "EtEL", "EtLL", "Etx|L", "E(t|L", "Et)|L", "E((t)*2)*2L",
        "Et*|L", "Et*-1L", "E()*2L", "*3EL", "Et*99999999999999999999L", "Et*1000L",
        "E(t*100|)*100L", "Et*99999999999L"}) {
    EXPECT_FALSE(parse_megatron_stages(text, 999)) << text;
  }
}

// What is written is read back, for every split of up to 6 layers into up to 4 stages.
TEST(MegatronStages, TextAndStagesAreInverse) {
  for (int64_t code = 0; code < 7 * 7 * 7 * 7; ++code) {
    const Layers all = {code % 7, code / 7 % 7, code / 49 % 7, code / 343};
    for (size_t count = 1; count <= all.size(); ++count) {
      const Layers layers(all.begin(), all.begin() + ptrdiff_t(count));
      const auto stages = parse_megatron_stages(megatron_stages_text(layers, code % 3), 100);
      ASSERT_TRUE(stages);
      EXPECT_EQ(layers_of(*stages), layers);
      EXPECT_EQ(stages->back().ahead, code % 3);
    }
  }
}

TEST(MegatronStages, CutsAsItsRulesSay) {
  EXPECT_EQ(megatron_stages({.layers = 8, .pp = 4}), (Layers{2, 2, 2, 2}));
  EXPECT_EQ(megatron_stages({.layers = 8, .pp = 2, .chunks = 2}), (Layers{2, 2, 2, 2}));
  EXPECT_EQ(megatron_stages({.layers = 30, .pp = 4, .first_rank = 7, .last_rank = 7}),
            (Layers{7, 8, 8, 7}));
  EXPECT_EQ(megatron_stages({.layers = 14, .pp = 2, .first_rank = 6}), (Layers{6, 8}));
  EXPECT_EQ(megatron_stages({.layers = 14, .pp = 2, .chunks = 2, .first_rank = 6}),
            (Layers{3, 4, 3, 4}));
  EXPECT_EQ(
      megatron_stages({.layers = 126, .pp = 16, .counts_embedding = true, .counts_loss = true}),
      (Layers{7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7}));
  EXPECT_EQ(megatron_stages(
                {.layers = 6, .pp = 2, .chunks = 2, .counts_embedding = true, .counts_loss = true}),
            (Layers{1, 2, 2, 1}));
  EXPECT_FALSE(megatron_stages({.layers = 9, .pp = 2}));
  EXPECT_FALSE(megatron_stages({.layers = 6, .pp = 2, .chunks = 2}));
  EXPECT_FALSE(megatron_stages({.layers = 8, .pp = 2, .first_rank = 3, .last_rank = 3}));
  EXPECT_FALSE(megatron_stages({.layers = 8, .pp = 2, .first_rank = 9}));
  EXPECT_FALSE(megatron_stages({.layers = 8, .pp = 0}));
  constexpr int64_t kMost = INT64_MAX, kLeast = INT64_MIN;
  EXPECT_FALSE(megatron_stages({.layers = 8, .pp = 2, .first_rank = kLeast, .last_rank = kMost}));
  EXPECT_FALSE(megatron_stages({.layers = kMost, .pp = 1, .chunks = kMost, .counts_loss = true}));
  EXPECT_FALSE(megatron_stages({.layers = kMost, .pp = kMost, .chunks = kMost}));
}

// Whatever is cut, every layer lies in one stage.
TEST(MegatronStages, EveryLayerLiesInOneStage) {
  int64_t num_cut = 0;
  for (int64_t layers = 1; layers <= 24; ++layers) {
    for (int64_t pp = 1; pp <= 4; ++pp) {
      for (int64_t code = 0; code < 3 * 8 * 8; ++code) {
        MegatronCut cut{.layers = layers, .pp = pp, .chunks = 1 + code % 3};
        if (const int64_t first = code / 3 % 8; first > 0) cut.first_rank = first;
        if (const int64_t last = code / 24; last > 0) cut.last_rank = last;
        const auto stages = megatron_stages(cut);
        if (!stages) continue;
        ++num_cut;
        EXPECT_EQ(stages->size(), size_t(pp * cut.chunks));
        EXPECT_EQ(std::accumulate(stages->begin(), stages->end(), int64_t{0}), layers);
      }
    }
  }
  EXPECT_GT(num_cut, 100);
}

}  // namespace
}  // namespace trireme
