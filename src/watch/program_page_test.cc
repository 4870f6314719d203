#include "watch/program_page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "watch/blame.h"
#include "watch/rank_pages.h"
#include "watch/rank_sample.h"

namespace trireme {
namespace {

TEST(ProgramPage, GivesEachActionItsTextAndNoOther) {
  SharedRankPages pages = SharedRankPages::make().value();
  ProgramPage& page = pages->program;
  EXPECT_EQ(page.text_of(0), "");
  std::vector<std::string> actions;
  for (size_t i = 0; i < ProgramPage::kMostActions + 10; ++i) {
    actions.push_back(i % 5 == 4 ? "" : fmt::format("F{}", i));
  }
  page.show(actions);
  for (const int64_t i : {0, 1, 4, 5, int(ProgramPage::kMostActions) - 1}) {
    EXPECT_EQ(page.text_of(i), actions[size_t(i)]) << i;
  }
  EXPECT_EQ(page.text_of(-1), "");
  EXPECT_EQ(page.text_of(int64_t(ProgramPage::kMostActions)), "");
  page.show(std::vector<std::string>{"B1"});  // of another epoch
  EXPECT_EQ(page.text_of(0), "B1");
  EXPECT_EQ(page.text_of(1), "");
  page.show(std::vector<std::string>(2, std::string(ProgramPage::kMostBytes * 2 / 3, 'x')));
  EXPECT_NE(page.text_of(0), "");
  EXPECT_EQ(page.text_of(1), "");
}

TEST(ProgramPage, BytesThatMeanNothingAreNoTextOutsideThePage) {
  SharedRankPages pages = SharedRankPages::make().value();
  std::memset(static_cast<void*>(&pages->program), 0xff, sizeof(ProgramPage));
  for (const int64_t action : {int64_t{0}, int64_t{77}, INT64_MAX}) {
    EXPECT_LE(pages->program.text_of(action).size(), ProgramPage::kMostBytes);
  }
}

// The place of a rank names its action in words as far as they have room, and a rank that shows no
// program has the number alone.
TEST(ProgramPage, ThePlaceOfARankNamesItsAction) {
  SharedRankPages pages = SharedRankPages::make().value();
  pages->progress.begin_epoch(1, 0, 5);
  pages->progress.begin_step(12, 6);
  pages->progress.begin_action(1);
  EXPECT_EQ(place_text(RankSample::of(*pages)), "in step 12, action 1, call 0");
  const std::string words = "BW3 (BW both gradients, 3 micro-batch 3)";
  pages->program.show(std::vector<std::string>{"F3 (F forward)", words, std::string(500, 'x')});
  EXPECT_EQ(place_text(RankSample::of(*pages)), "in step 12, action 1 " + words + ", call 0");
  pages->progress.begin_action(2);
  const RankSample sample = RankSample::of(*pages);
  EXPECT_EQ(sample.action_text(), std::string(sample.action_code.size() - 1, 'x'));
}

}  // namespace
}  // namespace trireme
