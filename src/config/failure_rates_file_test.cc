#include "config/failure_rates_file.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr const char* kGood =
    "[rates]\nname = \"x\"\nper_host_day = 0.01\n"
    "[causes.a]\nclass = \"device lost\"\ndomain = \"device\"\nshare = 0.75\n"
    "[causes.\"b, and more\"]\nclass = \"user program\"\ndomain = \"process\"\nshare = 0.25\n";

std::string refusal(const std::string& text) {
  const Result<FailureRates> rates = parse_failure_rates(text, "r.toml");
  EXPECT_FALSE(rates.ok()) << text;
  if (rates.ok()) return "";
  EXPECT_EQ(rates.error().kind, ErrorKind::Usage);
  return rates.error().message;
}

TEST(FailureRatesFile, SharesCountsAndRatesSayTheSame) {
  const FailureRates by_share = parse_failure_rates(kGood, "r.toml").value();
  ASSERT_EQ(by_share.causes.size(), 2u);
  EXPECT_DOUBLE_EQ(by_share.causes[0].per_host_day, 0.0075);
  EXPECT_EQ(by_share.causes[1].name, "b, and more");
  const FailureRates by_count = parse_failure_rates(
                                    "[rates]\ncounted_devices = 800\ncounted_days = 10\n"
                                    "[causes.a]\nclass = \"device lost\"\ncount = 7.5\n"
                                    "[causes.b]\nper_host_day = 0.0025\n[causes.c]\nper_day = 2\n",
                                    "r.toml")
                                    .value();
  EXPECT_DOUBLE_EQ(by_count.causes[0].per_host_day, 0.0075);
  EXPECT_DOUBLE_EQ(by_count.causes[1].per_host_day, 0.0025);
  EXPECT_DOUBLE_EQ(by_count.causes[2].per_day, 2.0);
  EXPECT_EQ(causes_of_job(by_count, 80)[2].per_day, causes_of_job(by_count, 8000)[2].per_day);
}

// Each bad text, and what its message must say: the line, what is wrong, and what to write.
TEST(FailureRatesFile, BadTextsAreRefusedWithTheLine) {
  const auto with = [](const std::string& line) { return std::string(kGood) + line + "\n"; };
  const std::pair<std::string, std::vector<const char*>> kBad[] = {
      {with("class2 = 1"), {"r.toml:12:", "causes.b, and more.class2 is unknown", "class"}},
      {"[causes.a]\nclass = \"devise lost\"\nper_day = 1\n",
       {"r.toml:2:", "devise lost", "did you mean device lost?"}},
      {"[causes.a]\nper_day = -1\n", {"r.toml:2:", "must be from 0"}},
      {"[causes.a]\nper_day = nan\n", {"r.toml:2:", "must be from 0"}},
      {"[causes.a]\nper_day = \"often\"\n", {"r.toml:2:", "must be a number"}},
      {"[causes.a]\nper_day = 1\nper_host_day = 1\n", {"r.toml:2:", "has 2"}},
      {"[causes.a]\nclass = \"hang\"\n", {"r.toml:2:", "must have one of", "has 0"}},
      {"[causes.a]\ncount = 3\n", {"r.toml:2:", "rates.counted_days"}},
      {"[causes.a]\nshare = 1\n", {"r.toml:2:", "rates.per_host_day"}},
      {"[rates]\nper_host_day = 1\n[causes.a]\nshare = 0.6\n[causes.b]\nshare = 0.3\n",
       {"r.toml:", "add up to 0.9"}},
      {"[rates]\nname = \"x\"\n", {"r.toml:", "no cause"}},
      {"[rates]\nrestart_s = -5\n", {"r.toml:2:", "restart_s"}},
      {"[rates]\nrestarts = 5\n", {"r.toml:2:", "did you mean restart_s?"}},
      {"[rates]\nlemon_share = 0.1\n[causes.a]\nper_day = 1\n", {"lemon_factor"}},
      {"[mttf_hours]\nmany = 3\n", {"r.toml:2:", "number of devices"}},
      {"[mttf_hours]\n8 = 0\n", {"r.toml:2:", "mttf_hours.8 = 0", "from 1e-06"}},
      {"[model]\nlayers = 3\n", {"r.toml:2:", "model.layers is unknown", "[causes.NAME]"}},
      {"[causes.a\n", {"r.toml:1:", "not valid TOML"}},
      {"[causes.a]\n[rates]\n", {"r.toml:1:", "causes.a"}},
  };
  for (const auto& [text, words] : kBad) {
    const std::string message = refusal(text);
    for (const char* word : words) {
      EXPECT_NE(message.find(word), std::string::npos) << message << "\nlacks: " << word;
    }
  }
}

TEST(FailureRatesFile, BuiltInRatesAreReadByNameAndMisspeltNamesAreHelped) {
  for (const std::string& name : built_in_failure_rates()) {
    EXPECT_TRUE(load_failure_rates(name).ok()) << name;
  }
  const Result<FailureRates> misspelt = load_failure_rates("lama3");
  ASSERT_FALSE(misspelt.ok());
  EXPECT_NE(misspelt.error().message.find("did you mean llama3?"), std::string::npos);
  EXPECT_FALSE(load_failure_rates("no/such/rates.toml").ok());
}

}  // namespace
}  // namespace trireme
