#include "schema/parity_code.h"

#include <gtest/gtest.h>

#include "schema/run_config_validate.h"

namespace trireme {
namespace {

TEST(ParityCode, TakesWordsAndCodesAndRefusesOthers) {
  EXPECT_TRUE(parse_parity("auto")->is_auto);
  EXPECT_EQ(parse_parity("none")->code, (ParityCode{1, 0}));
  EXPECT_EQ(parse_parity("4+2")->code, (ParityCode{4, 2}));
  EXPECT_EQ(parse_parity("126+1")->code, (ParityCode{126, 1}));
  for (const char* text : {"", "4", "4+", "+2", "0+1", "1+0", "4+2 ", "-1+2", "4+2+1", "127+1",
                           "99999999999+1", "a+b"}) {
    EXPECT_FALSE(parse_parity(text).ok()) << text;
  }
}

// One host has no parity, and never are more hosts needed than there are.
TEST(ParityCode, FitsTheNumberOfHosts) {
  const ParityChoice automatic{.is_auto = true};
  EXPECT_EQ(parity_for(automatic, 1).num_parity, 0);
  EXPECT_EQ(parity_for(automatic, 2), (ParityCode{1, 1}));
  EXPECT_EQ(parity_for(automatic, 3), (ParityCode{2, 1}));
  EXPECT_EQ(parity_for(automatic, 9), (ParityCode{2, 1}));
  EXPECT_EQ(parity_for({.code = {4, 2}}, 6), (ParityCode{4, 2}));
  EXPECT_EQ(parity_for({.code = {4, 2}}, 4), (ParityCode{2, 2}));
  EXPECT_EQ(parity_for({.code = {4, 2}}, 2), (ParityCode{1, 1}));
  EXPECT_EQ(parity_for({}, 5).num_parity, 0);
}

TEST(ParityCode, AWrongOneIsAProblemOfTheConfiguration) {
  RunConfig config;
  config.checkpoint.parity = "4-2";
  bool is_named = false;
  for (const ConfigProblem& problem : validate(config)) {
    is_named = is_named || problem.message().find("checkpoint.parity") != std::string::npos;
  }
  EXPECT_TRUE(is_named);
}

}  // namespace
}  // namespace trireme
