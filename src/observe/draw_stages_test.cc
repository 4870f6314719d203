#include "observe/draw_stages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

namespace trireme {
namespace {

StagesPicture two_stages() {
  StagesPicture picture;
  picture.title = "plan <by op>";
  picture.num_ranks = 12;
  picture.nodes = 4;
  picture.stages = {{.units = "embedding, layers 0 to 3",
                     .figures = "8 ranks",
                     .first_rank = 0,
                     .num_ranks = 8,
                     .seconds = 0.5,
                     .memory_share = 0.25,
                     .kinds = {{"4 layers",
                                "ZeRO 1",
                                {{"attn.wq attn", "data 2, tensor 4"}, {"mlp", "data 8"}}}}},
                    {.units = "layers 4 and 5, head",
                     .figures = "4 ranks",
                     .first_rank = 8,
                     .num_ranks = 4,
                     .seconds = 1.0,
                     .memory_share = 0.5,
                     .kinds = {{"head", "ZeRO 3", {{"loss", "data 4"}}}}}};
  return picture;
}

// The widths of all boxes whose tip begins with `tip`.
std::vector<double> widths_of(const std::string& svg, const std::string& tip) {
  std::vector<double> widths;
  const std::regex box("width=\"([0-9.]+)\" height=\"[0-9.]+\" fill=\"[^\"]*\"><title>" + tip);
  for (std::sregex_iterator at(svg.begin(), svg.end(), box), end; at != end; ++at) {
    widths.push_back(std::stod((*at)[1]));
  }
  return widths;
}

TEST(DrawStages, AStageIsAsWideAsItsShareOfTheRanks) {
  const std::string svg = draw_stages(two_stages());
  const std::vector<double> widths = widths_of(svg, "stage ");
  ASSERT_EQ(widths.size(), 2u);
  EXPECT_NEAR(widths[0], 2.0 * widths[1], 0.2);
}

TEST(DrawStages, ALineStandsBetweenNodesAlsoOfSeveralSizes) {
  StagesPicture picture = two_stages();
  picture.nodes.begin_part(8, 1);
  const auto lines_of = [](const std::string& svg) {
    int lines = 0;
    for (size_t at = 0; (at = svg.find("<line class=\"node\"", at)) != svg.npos; ++at) ++lines;
    return lines;
  };
  EXPECT_EQ(lines_of(draw_stages(two_stages())), 2);  // at ranks 4 and 8
  EXPECT_EQ(lines_of(draw_stages(picture)), 5);       // also at 9, 10 and 11
  EXPECT_NE(draw_stages(picture).find("separates nodes of 1, 4"), std::string::npos);
}

TEST(DrawStages, EveryOpAndEveryRoleIsNamed) {
  const std::string svg = draw_stages(two_stages());
  for (const char* text : {">attn.wq attn<", ">mlp<", ">loss<", "plan &lt;by op&gt;"}) {
    EXPECT_NE(svg.find(text), svg.npos) << text;
  }
  for (const char* roles : {"data 2, tensor 4", "data 8", "data 4"}) {
    // On its op and in the legend.
    const std::string text = fmt::format(">{}<", roles);
    EXPECT_NE(svg.find(text, svg.find(text) + 1), svg.npos) << roles;
  }
}

TEST(DrawStages, AStageLikeTheOneBeforeIsDrawnOnce) {
  StagesPicture picture = two_stages();
  picture.stages[1].kinds = picture.stages[0].kinds;
  picture.stages[1].is_like_before = true;
  const std::string svg = draw_stages(picture);
  EXPECT_EQ(widths_of(svg, "mlp").size(), 1u);
  EXPECT_EQ(widths_of(svg, "stage ").size(), 2u);
}

}  // namespace
}  // namespace trireme
