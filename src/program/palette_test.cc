#include "program/palette.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace trireme {
namespace {

// What a colour stands for on pages, where several names stand for one thing.
std::string meaning_of(const std::string& name) {
  static const std::map<std::string, std::string> kSame = {{"op-FB", "op-BW"},
                                                           {"mem-grads", "op-BW"},
                                                           {"mem-optimizer", "op-Step"},
                                                           {"time-optimizer", "op-Step"},
                                                           {"mem-comm", "op-transfer"},
                                                           {"time-exposed", "op-transfer"},
                                                           {"time-file", "op-memory"},
                                                           {"time-stragglers", "op-waited"},
                                                           {"time-saving", "mem-snapshot"}};
  const auto found = kSame.find(name);
  return found == kSame.end() ? name : found->second;
}

// One colour means one thing in all charts, and colours of different things can be told apart.
TEST(Palette, OneColourMeansOneThing) {
  const auto palette = report_palette();
  for (const auto& [name, color] : palette) {
    for (const auto& [other, its] : palette) {
      const double apart =
          std::sqrt(std::pow(color.red - its.red, 2) + std::pow(color.green - its.green, 2) +
                    std::pow(color.blue - its.blue, 2));
      if (meaning_of(name) == meaning_of(other)) {
        EXPECT_EQ(apart, 0.0) << name << " and " << other;
      } else {
        EXPECT_GE(apart, 24.0) << name << " and " << other;
      }
    }
  }
}

// The picture of the README is drawn by hand.
TEST(Palette, ThePictureOfAStepHasTheColoursOfThePages) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  std::stringstream picture;
  picture << std::ifstream(root / "docs" / "step.svg").rdbuf();
  std::map<std::string, Color> pages;
  for (const auto& [name, color] : report_palette()) pages[name] = color;
  const std::map<std::string, std::string> names = {
      {"f", "op-F"},       {"b", "op-BW"},         {"c", "op-transfer"},    {"u", "op-Step"},
      {"p", "mem-params"}, {"o", "mem-optimizer"}, {"a", "mem-activations"}};
  for (const auto& [style, name] : names) {
    const std::string own = "." + style + "{fill:", begin = own + css(pages.at(name)) + "}";
    EXPECT_NE(picture.str().find(begin), std::string::npos) << name;
    EXPECT_EQ(picture.str().find(own), picture.str().rfind(own)) << name;  // in dark pages, too
  }
}

}  // namespace
}  // namespace trireme
