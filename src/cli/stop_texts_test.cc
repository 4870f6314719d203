#include "cli/stop_texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace trireme {
namespace {

// For every way to cut a text into pieces: exactly the text before the first stop text is shown,
// and shown text stays.
TEST(StopTexts, ShowExactlyWhatLiesBeforeTheFirstOfThemHoweverTheTextIsCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const auto draw = [&](size_t most) {
      std::string text(1 + random() % most, 'a');
      for (char& c : text) c = char('a' + random() % 2);
      return text;
    };
    const std::string text = draw(20);
    std::vector<std::string> stops;
    for (uint32_t i = random() % 3; i > 0; --i) stops.push_back(draw(4));
    // If several stop texts end at the same place, the longest one counts.
    size_t end = text.size();
    bool stops_there = false;
    for (size_t length = 1; length <= text.size() && !stops_there; ++length) {
      for (const std::string& stop : stops) {
        if (!text.substr(0, length).ends_with(stop)) continue;
        stops_there = true;
        end = std::min(end, length - stop.size());
      }
    }
    StopTexts filter = StopTexts::make(stops).value();
    std::string shown;
    for (size_t begin = 0; begin < text.size();) {
      const size_t size = std::min<size_t>(1 + random() % 3, text.size() - begin);
      shown += filter.add(std::string_view(text).substr(begin, size));
      begin += size;
      ASSERT_TRUE(text.substr(0, end).starts_with(shown)) << text << " " << shown;
    }
    EXPECT_EQ(filter.has_stopped(), stops_there);
    EXPECT_EQ(shown + filter.rest(), text.substr(0, end)) << text;
  }
}

TEST(StopTexts, AnEmptyOneIsRefused) {
  EXPECT_FALSE(StopTexts::make({"a", ""}).ok());
  EXPECT_TRUE(StopTexts::make({}).ok());
}

}  // namespace
}  // namespace trireme
