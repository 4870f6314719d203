#include "observe/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/file.h"
#include "base/json_text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Report : public testing::Test {
 protected:
  Report()
      : folder_((fs::temp_directory_path() / ("trireme_report_test." + std::to_string(::getpid())))
                    .string()) {
    fs::create_directories(folder_);
  }
  ~Report() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file_atomically(folder_ + "/" + name, text).ok());
  }
  std::string page() const {
    const Status written = write_report(folder_, folder_ + "/report.html");
    EXPECT_TRUE(written.ok()) << written.error().message;
    return read_text_file(folder_ + "/report.html").value();
  }

  std::string folder_;
};

// The data that the page's script reads.
Json data_of(const std::string& page) {
  const std::string open = "<script id=\"data\" type=\"application/json\">";
  const size_t begin = page.find(open) + open.size();
  const size_t end = page.find("</script>", begin);
  return parse_json(page.substr(begin, end - begin));
}

std::string train_line(int64_t step) {
  return json_text(Json{{"event", "train"}, {"step", step}, {"loss", 1.0 / double(step)}}) + "\n";
}

TEST_F(Report, HoldsWhatTheRunDirectoryHolds) {
  write("metrics.jsonl", R"({"event":"run","step":0,"params":17})"
                         "\n" +
                             train_line(1) + train_line(2) +
                             R"({"event":"eval","step":2,"val_loss":3.5})"
                             "\n"
                             R"({"event":"sample","step":2,"text":"once </script> upon"})"
                             "\n");
  write("summary.json", R"({"params":17,"ranks":[{"memory":{"predicted":{"peak":4711},)"
                        R"("measured":{"peak":4711}}}]})");
  write("ranks.json", R"({"num_ranks":1,"ranks":[{"rank":0}]})");
  write("config.resolved.toml", "[model]\nlayers = 3\n");
  const Json data = data_of(page())["runs"][0];
  EXPECT_EQ(data["metrics"]["run"][0]["params"], 17);
  EXPECT_EQ(data["metrics"]["train"].size(), 2u);
  EXPECT_EQ(data["metrics"]["train"][1]["loss"], 0.5);
  EXPECT_EQ(data["metrics"]["eval"][0]["val_loss"], 3.5);
  EXPECT_EQ(data["metrics"]["sample"][0]["text"], "once </script> upon");
  EXPECT_EQ(data["summary"]["ranks"][0]["memory"]["measured"]["peak"], 4711);
  EXPECT_EQ(data["ranks"]["num_ranks"], 1);
  EXPECT_EQ(data["config"], "[model]\nlayers = 3\n");
}

TEST_F(Report, OpensWithoutANetwork) {
  write("metrics.jsonl", train_line(1));
  const std::string text = page();
  // Matches everything that a browser would fetch. Names of XML dialects are not fetched.
  const std::regex fetched(R"((src|href)\s*=|url\(|@import|fetch\(|XMLHttpRequest|<link|<iframe)");
  std::smatch found;
  EXPECT_FALSE(std::regex_search(text, found, fetched)) << found.str();
  std::string without_dialect = text;
  const std::string svg = "http://www.w3.org/2000/svg";
  for (size_t at; (at = without_dialect.find(svg)) != std::string::npos;) {
    without_dialect.erase(at, svg.size());
  }
  EXPECT_EQ(without_dialect.find("://"), std::string::npos);
}

TEST_F(Report, AnyRunDirectoryGivesAPage) {
  for (const char* damaged : {"", "{", "[1]", "null", "\xff\xfe"}) {
    write("metrics.jsonl", std::string(damaged) + "\n" + train_line(1));
    write("summary.json", damaged);
    write("plan.json", R"({"params":5})");
    write("ranks.json", damaged);
    write("config.resolved.toml", damaged);
    const Json data = data_of(page())["runs"][0];
    EXPECT_EQ(data["metrics"]["train"].size(), 1u) << damaged;
    EXPECT_EQ(data["summary"]["params"], 5) << damaged;
  }
}

TEST_F(Report, LongCurvesKeepTheirEnds) {
  constexpr int64_t kSteps = 12345;
  std::string text;
  for (int64_t step = 1; step <= kSteps; ++step) text += train_line(step);
  write("metrics.jsonl", text);
  const Json train = data_of(page())["runs"][0]["metrics"]["train"];
  EXPECT_LE(train.size(), 2001u);
  EXPECT_GE(train.size(), 1000u);
  EXPECT_EQ(train.front()["step"], 1);
  EXPECT_EQ(train.back()["step"], kSteps);
}

// Makes a page that compares two runs with these configurations.
Json comparison(const std::string& folder, const std::string& a, const std::string& b) {
  for (const auto& [name, config] : {std::pair{"/a", a}, std::pair{"/b", b}}) {
    fs::create_directories(folder + name);
    const std::string line = R"({"event":"run","step":0,"config":)" + config + "}\n";
    EXPECT_TRUE(write_file_atomically(folder + name + "/metrics.jsonl", line).ok());
  }
  const std::string out = folder + "/comparison.html";
  EXPECT_TRUE(write_comparison({folder + "/a", folder + "/b/"}, out).ok());
  return data_of(read_text_file(out).value());
}

TEST_F(Report, AComparisonNamesEveryKeyThatDiffersAndNoOther) {
  const Json data = comparison(folder_, R"({"run":{"steps":3,"seed":1},"optim":{"lr":0.5}})",
                               R"({"run":{"steps":3,"seed":2},"model":{"layers":4}})");
  EXPECT_EQ(data["runs"][0]["name"], "a");
  EXPECT_EQ(data["runs"][1]["name"], "b");
  const Json expected = {{{"key", "model.layers"}, {"values", {nullptr, 4}}},
                         {{"key", "optim.lr"}, {"values", {0.5, nullptr}}},
                         {{"key", "run.seed"}, {"values", {1, 2}}}};
  EXPECT_EQ(data["differences"], expected);
  const std::string same = R"({"run":{"steps":3}})";
  EXPECT_EQ(comparison(folder_, same, same)["differences"], Json::array());
}

TEST_F(Report, AFolderThatIsNoRunIsSaid) {
  const Status written = write_report(folder_, folder_ + "/report.html");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::Damaged);
  EXPECT_FALSE(fs::exists(folder_ + "/report.html"));
}

}  // namespace
}  // namespace trireme
