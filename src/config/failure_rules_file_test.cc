#include "config/failure_rules_file.h"

#include <gtest/gtest.h>

#include "failures/classify.h"

namespace trireme {
namespace {

TEST(FailureRulesFile, AFileComesOnTopOfTheBuiltInRules) {
  const FailureRules built_in = built_in_failure_rules();
  const Result<FailureRules> extended = parse_failure_rules(
      "[rules.ours]\nclass = \"device lost\"\nconfidence = 0.99\npattern = \"warp drive*failed\"\n"
      "[rules.\"host is gone\"]\nclass = \"network link\"\nkind = \"host\"\nconfidence = 0.8\n"
      "[classes.hang]\nremedy = \"call us\"\n",
      "r.toml", built_in);
  ASSERT_TRUE(extended.ok()) << extended.error().message;
  EXPECT_EQ(extended->rules.size(), built_in.rules.size() + 1);
  const FailureEvidence evidence{.last_words = "the Warp Drive has failed"};
  EXPECT_EQ(classify(evidence, built_in).failure_class, FailureClass::Unknown);
  EXPECT_EQ(classify(evidence, *extended).failure_class, FailureClass::DeviceLost);
  EXPECT_EQ(classify({.kind = "host"}, built_in).failure_class, FailureClass::HostGone);
  EXPECT_EQ(classify({.kind = "host"}, *extended).failure_class, FailureClass::NetworkLink);
  EXPECT_EQ(classify({.kind = "hang"}, *extended).remedy, "call us");
  EXPECT_EQ(extended->advice_of(FailureClass::Hang).user,
            built_in.advice_of(FailureClass::Hang).user);
}

TEST(FailureRulesFile, BadRulesAreRefusedWithTheLine) {
  const std::pair<const char*, std::vector<const char*>> kBad[] = {
      {"[rules.a]\nclass = \"hang\"\n", {"r.toml:2:", "matches every failure", "pattern"}},
      {"[rules.a]\nclass = \"hang\"\npattern = \"*\"\n", {"r.toml:2:", "nearly every failure"}},
      {"[rules.a]\nclass = \"hang\"\npattern = \"good|\"\n", {"r.toml:2:", "nearly every failure"}},
      {"\n[rules.a]\nclass = \"hng\"\n", {"r.toml:3:", "hng", "did you mean hang?"}},
      {"[rules.a]\nkind = \"hang\"\n", {"r.toml:2:", "needs a class"}},
      {"[rules.a]\nclass = \"hang\"\nkind = \"hung\"\n", {"r.toml:2:", "kind = \"hung\""}},
      {"[rules.a]\nclass = \"hang\"\nsignal = 900\n", {"r.toml:3:", "from 1 to 64"}},
      {"[rules.a]\nclass = \"hang\"\nconfidence = 1.5\n", {"r.toml:3:", "from 0.01 to 1"}},
      {"[rules.a]\nclass = \"hang\"\ncounter = \"sheep\"\n", {"r.toml:3:", "sheep"}},
      {"[rules.a]\nclas = \"hang\"\n", {"r.toml:2:", "did you mean class?"}},
      {"[classes.\"disk ful\"]\nuser = \"x\"\n", {"r.toml:2:", "did you mean disk full?"}},
      {"[rules]\nx = 1\n", {"r.toml:2:", "[rules.NAME]"}},
      {"[causes.a]\ncount = 1\n", {"r.toml:2:", "causes.a.count is unknown"}},
      {"x = 1\n", {"r.toml:1:", "x is unknown"}},
      {"[rules.a\n", {"r.toml:1:", "not valid TOML"}},
  };
  for (const auto& [text, words] : kBad) {
    const Result<FailureRules> rules = parse_failure_rules(text, "r.toml");
    ASSERT_FALSE(rules.ok()) << text;
    EXPECT_EQ(rules.error().kind, ErrorKind::Usage);
    for (const char* word : words) {
      EXPECT_NE(rules.error().message.find(word), std::string::npos)
          << rules.error().message << "\nlacks: " << word;
    }
  }
}

}  // namespace
}  // namespace trireme
