#include "observe/rank_view.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "planner/make_plan.h"
#include "program/action_legend.h"

namespace trireme {
namespace {

Hardware drawn_hardware() {
  Hardware hardware;
  hardware.name = "some";
  hardware.fp32_flops = 1e10;
  hardware.bf16_flops = 1e10;
  hardware.memory_bytes_per_s = 1e10;
  return hardware;
}

RunConfig drawn_run(int dp, int tp, int pp, int cp, int zero) {
  RunConfig config;
  config.model.layers = 4;
  config.model.d_model = 64;
  config.model.heads = 4;
  config.model.vocab_size = 128;
  config.model.seq_len = 64;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 1;
  config.parallel.dp = dp;
  config.parallel.tp = tp;
  config.parallel.pp = pp;
  config.parallel.cp = cp;
  config.parallel.zero = zero;
  return config;
}

// On every layout: the predicted row of a rank ends with Step where its step ends, its boxes follow
// each other, and what nothing hides of dp has a box as long as the table says.
TEST(RankView, ThePredictedTimelineEndsWhereThePredictedStepEnds) {
  const Hardware hardware = drawn_hardware();
  for (const auto& [dp, tp, pp, cp] : {std::array{1, 1, 1, 1},
                                       {2, 1, 1, 1},
                                       {4, 1, 2, 1},
                                       {1, 2, 1, 1},
                                       {2, 2, 2, 1},
                                       {1, 1, 1, 2}}) {
    for (const int zero : {0, 1, 3}) {
      if (dp == 1 && zero > 0) continue;
      const Result<RunPlan> plan = make_plan(drawn_run(dp, tp, pp, cp, zero), {});
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      const Predictions predictions = predict_ranks(*plan, hardware);
      const Simulation simulation = simulate_plan(*plan, hardware).value();
      double longest_us = 0.0;
      for (int position = 0; position < plan->num_ranks(); ++position) {
        SCOPED_TRACE(testing::Message() << dp << tp << pp << cp << " " << zero << ":" << position);
        const StepTimes& times = predictions.at(position).time;
        TensorTables tables;
        const nlohmann::ordered_json row =
            rank_view(*plan, rank_plan(*plan, position), &simulation, times, tables)["predicted"];
        EXPECT_EQ(row["actions"].back(), "Step");
        EXPECT_NEAR(row["end_us"].back().get<double>(), times.step * 1e6, 0.02);
        longest_us = std::max(longest_us, row["end_us"].back().get<double>());
        double dp_us = 0.0;
        for (size_t i = 0; i < row["actions"].size(); ++i) {
          if (i > 0) {
            EXPECT_GE(row["begin_us"][i].get<double>() + 0.02, row["end_us"][i - 1].get<double>());
          }
          if (row["actions"][i] == "dp") {
            dp_us += row["end_us"][i].get<double>() - row["begin_us"][i].get<double>();
          }
        }
        EXPECT_NEAR(dp_us, times.exposed[0] * 1e6, 0.03);
      }
      EXPECT_NEAR(longest_us, predictions.step_s() * 1e6, 0.02);
    }
  }
}

// A page shows the codes of actions, and what each of them means.
TEST(RankView, EveryCodeOfAnActionHasItsMeaning) {
  const Hardware hardware = drawn_hardware();
  const RunPlan plan = make_plan(drawn_run(2, 1, 2, 1, 2), {}).value();
  const Predictions predictions = predict_ranks(plan, hardware);
  TensorTables tables;
  const RankPlan rank = rank_plan(plan, 1);
  const auto view = rank_view(plan, rank, nullptr, predictions.at(1).time, tables);
  EXPECT_EQ(view.at("legend"), action_legend(rank.program, plan.schedule.num_chunks));
  EXPECT_NE(view.at("legend").get<std::string>().find("BW both gradients"), std::string::npos);
}

}  // namespace
}  // namespace trireme
