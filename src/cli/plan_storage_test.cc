#include "cli/plan_storage.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"
#include "cli/plan_command.h"

namespace trireme {
namespace {

const std::filesystem::path kPlans = std::filesystem::path(__FILE__).parent_path() / ".." / "..";

// Returns what `plan --storage tectonic` prints after a change of its options.
Result<std::string> planned_storage(const std::function<void(PlanOptions&)>& change) {
  std::ostringstream out, err;
  CommandIo io{out, err};
  PlanOptions options{.cluster = (kPlans / "clusters" / "dgx-h100.toml").string()};
  options.advice.storage.cluster = "tectonic";
  change(options);
  TRIREME_TRY(code, run_plan(options, io));
  EXPECT_EQ(code, 0);
  return out.str();
}

void take_run(PlanOptions& options) {
  options.config.files = {(kPlans / "configs" / "tiny-gpt2.toml").string()};
  options.config.overrides = {"parallel.dp=4", "batch.global_sequences=4",
                              "batch.micro_sequences=1"};
}

nlohmann::json storage_of(const std::function<void(PlanOptions&)>& change) {
  const std::string text = planned_storage([&](PlanOptions& options) {
                             options.json = true;
                             change(options);
                           }).value();
  return parse_json(text).at("storage");
}

TEST(PlanStorageCommand, PrintsTheClusterOfTheLectureWithoutARun) {
  const nlohmann::json storage = storage_of([](PlanOptions& o) { o.advice.storage.code = "6+3"; });
  EXPECT_EQ(storage.at("servers"), 7500);
  EXPECT_EQ(storage.at("raw_bytes"), 240e15);
  EXPECT_EQ(storage.at("bytes_per_s"), 2e12);
  EXPECT_EQ(storage.at("peak_bytes_per_s"), 7e12);
  EXPECT_FALSE(storage.contains("checkpoint_bytes"));
  const auto& codes = storage.at("codes");
  ASSERT_EQ(codes.size(), 5u);
  EXPECT_EQ(codes[0].at("code"), "6+3");
  for (const auto& one : codes) {
    EXPECT_DOUBLE_EQ(one.at("capacity_bytes").get<double>() * one.at("overhead").get<double>(),
                     240e15);
    const double events = one.at("loss_events_per_year").get<double>();
    EXPECT_NEAR(one.at("formula").at("loss_events_per_year").get<double>(), events, 0.1 * events);
    EXPECT_FALSE(one.contains("save_s"));
  }
  const std::string text = planned_storage([](PlanOptions&) {}).value();
  EXPECT_TRUE(text.starts_with("storage ")) << text;  // no empty line before it
  for (const char* word : {"240 PB", "7 TB/s at peak", "copies:3", "8+3"}) {
    EXPECT_NE(text.find(word), std::string::npos) << text;
  }
}

// The checkpoint has the bytes of the weights and the optimizer's state. Without ZeRO every rank of
// dp reads all of it.
TEST(PlanStorageCommand, TellsTheTimesOfARunsCheckpoints) {
  const auto planned = [](int zero, int every) {
    return storage_of([&](PlanOptions& options) {
      take_run(options);
      options.config.overrides.push_back("parallel.zero=" + std::to_string(zero));
      options.config.overrides.push_back("checkpoint.every=" + std::to_string(every));
    });
  };
  const nlohmann::json whole = planned(0, 10), sharded = planned(1, 0);
  const double bytes = whole.at("checkpoint_bytes").get<double>();
  EXPECT_GT(bytes, 0.0);
  EXPECT_EQ(sharded.at("checkpoint_bytes"), bytes);
  EXPECT_EQ(whole.at("restore_bytes").get<double>(), 4.0 * bytes);
  EXPECT_EQ(sharded.at("restore_bytes").get<double>(), bytes);
  EXPECT_TRUE(sharded.at("interval_s").is_null());
  for (const nlohmann::json& one : whole.at("codes")) {
    const double save_s = bytes * one.at("overhead").get<double>() / 2e12;
    EXPECT_DOUBLE_EQ(one.at("save_s").at("sustained").get<double>(), save_s);
    EXPECT_DOUBLE_EQ(one.at("restore_s").at("peak").get<double>(), 4.0 * bytes / 7e12);
    EXPECT_DOUBLE_EQ(one.at("busy_share").get<double>(),
                     save_s / whole.at("interval_s").get<double>());
  }
  EXPECT_NE(planned_storage(take_run).value().find("read by 4 ranks"), std::string::npos);
}

TEST(PlanStorageCommand, RefusesWhatItCannotPlanAndSaysWhatWouldDo) {
  const auto refusal = [](const std::function<void(PlanOptions&)>& change) {
    const Result<std::string> planned = planned_storage(change);
    EXPECT_FALSE(planned.ok());
    return planned.ok() ? "" : planned.error().message;
  };
  const auto refuses = [&](const std::function<void(PlanOptions&)>& change, const char* word) {
    const std::string message = refusal(change);
    EXPECT_NE(message.find(word), std::string::npos) << message;
  };
  refuses([](PlanOptions& o) { o.advice.storage.code = "8/3"; }, "copies:N");
  refuses([](PlanOptions& o) { o.advice.storage = {.cluster = "", .code = "8+3"}; }, "--storage");
  refuses([](PlanOptions& o) { o.advice.storage.cluster = "tectonik"; }, "did you mean tectonic?");
  refuses([](PlanOptions& o) { o.explain = true; }, "RUN.toml is missing");
  refuses(
      [](PlanOptions& o) {
        take_run(o);
        o.search = "";
      },
      "search first");
}

}  // namespace
}  // namespace trireme
