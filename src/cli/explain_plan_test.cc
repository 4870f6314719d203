#include "cli/explain_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "compile/stage_cost.h"
#include "planner/make_plan.h"
#include "predict/predict.h"

namespace trireme {
namespace {

RunPlan uneven_plan(const std::string& stage_tp) {
  RunConfig config;
  config.model.family = ModelFamily::Llama;
  config.model.layers = 4;
  config.model.d_model = 128;
  config.model.heads = 8;
  config.model.vocab_size = 512;
  config.model.seq_len = 64;
  config.model.tied_head = false;
  config.batch.global_sequences = 8;
  config.parallel.tp = 4;
  config.parallel.pp = 2;
  config.parallel.stage_tp = stage_tp;
  config.parallel.stage_layers = "2,2";
  config.parallel.order = "tp,cp,dp,pp";
  return make_plan(config, {}).value();
}

// The parts are those of the slowest place, whose ranks share out its layers by its own degree of
// tp. Attention is shared out by heads, norms are not, so the parts depend on the degree.
TEST(ExplainPlan, TheTimesArePartsOfThePlaceThatOthersWaitFor) {
  const Hardware hardware = nominal_hardware();
  for (const auto& [stage_tp, slowest] : {std::pair{"4,1", 1}, {"1,4", 0}, {"2,1", 1}}) {
    const RunPlan plan = uneven_plan(stage_tp);
    const auto json = explanation_json({plan, hardware, {}});
    const ComputeTimes own =
        price_places(plan, hardware).at(plan.mesh, slowest).of(plan.stages[size_t(slowest)]);
    const auto seconds = [&](const char* part) {
      return json.at("time").at(part).at("seconds").get<double>();
    };
    EXPECT_NEAR(seconds("memory") / seconds("matmuls"), own.memory_s / own.products_s, 1e-9)
        << stage_tp;
    EXPECT_NEAR(seconds("attention") / seconds("matmuls"), own.attention_s / own.products_s, 1e-9)
        << stage_tp;
    double sum = 0.0;
    for (const auto& part : json.at("time")) sum += part.at("seconds").get<double>();
    EXPECT_NEAR(sum, predicted_step_s(plan, hardware), 1e-9 * sum) << stage_tp;
  }
}

// "peak" is what is allocated, here and in all other text. The bytes in use have another name.
TEST(ExplainPlan, PeakIsWhatIsAllocatedAndNothingElse) {
  const RunPlan plan = uneven_plan("4,1");
  const MemoryPlan& memory = plan.pipeline.front().memory;
  const std::string text = explanation_text({plan, nominal_hardware(), {}});
  EXPECT_NE(text.find("): " + format_bytes(memory.peak_bytes) + " of the " +
                      format_bytes(memory.arena_bytes) + " that it allocates"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("its peak"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme
