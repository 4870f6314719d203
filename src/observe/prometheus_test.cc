#include "observe/prometheus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "base/clock.h"
#include "base/file.h"

namespace trireme {
namespace {

struct Exposition {
  std::map<std::string, std::string> types;
  std::map<std::string, std::string> samples;  // by name; labels are left out
};

// Parses the grammar of the text format. HELP and TYPE must come once before the samples of a name.
Exposition parse_exposition(const std::string& text) {
  EXPECT_TRUE(text.empty() || text.back() == '\n');
  const std::regex help(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) .+)");
  const std::regex type(R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge))");
  const std::regex sample(R"re(([a-zA-Z_:][a-zA-Z0-9_:]*))re"
                          R"re(\{(?:[a-zA-Z_]\w*="(?:[^"\\]|\\["\\n])*"(?:,|(?=\})))*\} (\S+))re");
  Exposition exposition;
  std::map<std::string, int> helps;
  std::istringstream lines(text);
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, found, help)) {
      EXPECT_EQ(++helps[found[1]], 1);
    } else if (std::regex_match(line, found, type)) {
      EXPECT_EQ(exposition.types.count(found[1]), 0u);
      exposition.types[found[1]] = found[2];
    } else if (std::regex_match(line, found, sample)) {
      EXPECT_EQ(exposition.types.count(found[1]), 1u) << line;
      exposition.samples[found[1]] = found[2];
    } else {
      ADD_FAILURE() << "not of the format: " << line;
    }
  }
  return exposition;
}

StepReport step(int64_t number) {
  StepReport report;
  report.step = number;
  report.loss = 1.0 / double(number);
  report.tokens = 10;
  return report;
}

class Prometheus : public testing::Test {
 protected:
  Prometheus()
      : path_((std::filesystem::temp_directory_path() /
               ("trireme_prometheus." + std::to_string(::getpid()) + ".prom"))
                  .string()) {}
  ~Prometheus() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST_F(Prometheus, TheFileHoldsTheNewestNumbersWhenTheRunEnds) {
  {
    auto metrics = PrometheusMetrics::start(
        {.file = path_, .labels = {{"run", "a \"b\" \\ c\nd"}}, .total_steps = 9});
    ASSERT_TRUE(metrics.ok()) << metrics.error().message;
    for (int64_t number = 1; number <= 4; ++number) (*metrics)->on_step(step(number));
    StepReport last = step(5);
    last.grad_norm = std::numeric_limits<double>::infinity();
    last.skipped = true;
    last.z_loss = 2.5;
    last.max_logit = 87.5;
    last.clipped_heads = 2;
    last.noise_scale = 1536.0;
    (*metrics)->on_step(last);
    (*metrics)->on_eval({5, 3.25, 0.0, 0.1});
  }
  const std::string text = read_text_file(path_).value();
  const Exposition exposition = parse_exposition(text);
  EXPECT_EQ(exposition.samples.at("trireme_step"), "5");
  EXPECT_EQ(exposition.samples.at("trireme_loss"), "0.2");
  EXPECT_EQ(exposition.samples.at("trireme_tokens_total"), "50");
  EXPECT_EQ(exposition.samples.at("trireme_skipped_steps_total"), "1");
  EXPECT_EQ(exposition.samples.at("trireme_gradient_norm"), "+Inf");
  EXPECT_EQ(exposition.samples.at("trireme_z_loss"), "2.5");
  EXPECT_EQ(exposition.samples.at("trireme_max_attention_logit"), "87.5");
  EXPECT_EQ(exposition.samples.at("trireme_clipped_heads"), "2");
  EXPECT_EQ(exposition.samples.at("trireme_gradient_noise_scale_tokens"), "1536");
  EXPECT_EQ(exposition.samples.count("trireme_aux_loss"), 0u);  // the model has no router
  EXPECT_EQ(exposition.samples.at("trireme_validation_loss"), "3.25");
  EXPECT_EQ(exposition.samples.count("trireme_checkpoint_step"), 0u);  // no checkpoint was written
  EXPECT_NE(text.find(R"(run="a \"b\" \\ c\nd")"), std::string::npos);
  for (const auto& [name, type] : exposition.types) {
    EXPECT_EQ(type == "counter", name.ends_with("_total")) << name;
  }
}

TEST_F(Prometheus, TellsOfValidationEpochMemoryAndEveryRank) {
  auto metrics = PrometheusMetrics::start({.file = path_, .labels = {{"run", "demo"}}}).value();
  StepReport report = step(8);
  report.step_s = 2.0;
  report.exposed_comm_s = 0.5;
  report.bubble_s = 0.25;
  report.epoch = 1.5;
  report.peak_bytes = 4711;
  metrics->on_step(report);
  metrics->on_eval({.step = 8, .val_loss = 3.0, .best_loss = 2.5, .best_step = 6});
  metrics->on_checkpoint({.step = 8});
  const std::vector<RankTimes> ranks = {{.compute_s = 1.0, .peak_bytes = 11},
                                        {.compute_s = 1.5, .exposed_comm_s = 0.125}};
  metrics->on_ranks(8, ranks);
  metrics->on_goodput({.all_s = 1.0});
  const std::string text = metrics->text();
  const Exposition exposition = parse_exposition(text);
  EXPECT_EQ(exposition.samples.at("trireme_best_validation_loss"), "2.5");
  EXPECT_EQ(exposition.samples.at("trireme_best_validation_step"), "6");
  EXPECT_EQ(exposition.samples.at("trireme_epoch"), "1.5");
  EXPECT_EQ(exposition.samples.at("trireme_peak_bytes"), "4711");
  EXPECT_EQ(exposition.samples.at("trireme_exposed_communication_ratio"), "0.25");
  EXPECT_EQ(exposition.samples.at("trireme_bubble_ratio"), "0.125");
  const double age = std::stod(exposition.samples.at("trireme_checkpoint_age_seconds"));
  EXPECT_GE(age, 0.0);
  EXPECT_LT(age, 60.0);
  EXPECT_NE(text.find("trireme_rank_compute_seconds{run=\"demo\",rank=\"1\"} 1.5\n"),
            std::string::npos);
  EXPECT_NE(text.find("trireme_rank_peak_bytes{run=\"demo\",rank=\"0\"} 11\n"), std::string::npos);
  const std::vector<std::string> names = PrometheusMetrics::names();
  for (const auto& [name, type] : exposition.types) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
}

}  // namespace
}  // namespace trireme
