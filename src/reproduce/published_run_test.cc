#include "reproduce/published_run.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "planner/make_plan.h"
#include "predict/predict.h"
#include "reproduce/baselines.h"
#include "reproduce/price_runs.h"
#include "reproduce/published_clusters.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

std::vector<PublishedRun> all_runs() {
  std::vector<PublishedRun> runs = megatron_t1_runs();
  for (const auto& more : {korthikanti_t5_runs(), vtrain_multi_runs(), llm_foundry_80g_runs(),
                           llm_foundry_40g_runs()}) {
    runs.insert(runs.end(), more.begin(), more.end());
  }
  return runs;
}

// The equations that the papers print.
TEST(PublishedRun, FlopsAreThoseOfThePapers) {
  for (const PublishedRun& run : all_runs()) {
    const double batch = double(run.global_sequences), s = double(run.model.seq_len);
    const double layers = double(run.model.layers), h = double(run.model.d_model);
    const double vocab = double(run.model.vocab_size);
    const double unit = batch * layers * s * h * h;
    EXPECT_NEAR(model_flops(run) / (72 * unit * (1 + s / (6 * h) + vocab / (12 * layers * h))), 1.0,
                1e-12);
    if (run.recompute != Recompute::Full) continue;
    EXPECT_NEAR(executed_flops(run) / (96 * unit * (1 + s / (6 * h) + vocab / (16 * layers * h))),
                1.0, 1e-12);
  }
}

// The name of a GPT counts one table, also if its head had one of its own.
int64_t params_of(const PublishedRun& run) {
  ModelConfig model = config_of(run).model;
  model.tied_head = !run.model.is_llama();
  return num_params(with_defaults(model, 0));
}

// A wrong digit in a copied shape changes the number of parameters, which the row's name says.
TEST(PublishedRun, ModelsHaveTheParametersOfTheirNames) {
  for (const PublishedRun& run : all_runs()) {
    if (run.part.ends_with("0GB")) continue;
    const double unit = run.row.starts_with("1T") ? 1e12 : 1e9;
    EXPECT_NEAR(double(params_of(run)) / (std::stod(run.row) * unit), 1.0, 0.03) << run.row;
  }
}

// The same page prints the exact number for every model.
TEST(PublishedRun, MptModelsHaveThePublishedParameters) {
  const std::map<std::string, int64_t> published = {
      {"125m", 125311488},  {"350m", 355985408},  {"760m", 760470528},
      {"1b", 1315950592},   {"3b", 2651837440},   {"7b", 6658859008},
      {"13b", 12853954560}, {"30b", 29975214080}, {"70b", 64862437376}};
  std::set<std::string> seen;
  for (PublishedRun run : all_runs()) {
    if (!run.part.ends_with("0GB")) continue;
    const std::string name = run.row.substr(0, run.row.find(' '));
    run.model.seq_len = 2048;  // of the published numbers, which count the positions
    EXPECT_EQ(params_of(run), published.at(name)) << run.row;
    seen.insert(name);
  }
  EXPECT_EQ(seen.size(), published.size());
}

TEST(PublishedRun, LlamasHaveThePublishedParameters) {
  const std::map<std::string, int64_t> published = {{"Llama 2 13B", 13015864320},
                                                    {"Llama 2 70B", 68976648192},
                                                    {"Llama 3 8B", 8030261248},
                                                    {"Llama 3 70B", 70553706496}};
  std::set<std::string> seen;
  for (const PublishedRun& run : torchtitan_a100_runs()) {
    const std::string name = run.row.substr(0, run.row.find(" on "));
    EXPECT_EQ(params_of(run), published.at(name)) << run.row;
    seen.insert(name);
  }
  EXPECT_EQ(seen.size(), published.size());
}

// The page prints the MFU beside the tokens per second. It counts 6 FLOPs of every parameter, those
// of the embedding included, and full attention.
TEST(PublishedRun, LlamasReachThePublishedMfu) {
  const double mfu[] = {0.582, 0.517, 0.611, 0.538, 0.508, 0.505};
  const std::vector<PublishedRun> runs = torchtitan_a100_runs();
  ASSERT_EQ(runs.size(), std::size(mfu));
  for (size_t i = 0; i < runs.size(); ++i) {
    const PublishedRun& run = runs[i];
    const double tokens = double(run.global_sequences * run.model.seq_len);
    const double embedding = 6.0 * tokens * double(run.model.vocab_size * run.model.d_model);
    const double flops = model_flops(run) + embedding;
    EXPECT_NEAR(flops / run.step_s / run.num_ranks() / 312e12, mfu[i], 0.001) << run.row;
  }
}

// What a Llama computes again with the policy "op": the products of keys, of attention and one of
// the MLP.
TEST(PublishedRun, SelectiveRecomputationOfTorchtitanRepeatsEverySecondProduct) {
  for (PublishedRun run : torchtitan_a100_runs()) {
    if (run.recompute != Recompute::Selective) continue;
    const double selective = executed_flops(run);
    run.recompute = Recompute::Full;
    EXPECT_GT(selective, model_flops(run));
    EXPECT_LT(selective, executed_flops(run));
    const double h = double(run.model.d_model), heads = double(run.model.heads);
    const double columns = h * double(run.model.kv_heads) / heads + h + double(run.model.d_ff);
    const double tokens = double(run.global_sequences * run.model.seq_len);
    EXPECT_NEAR(
        (selective - model_flops(run)) / (2.0 * tokens * h * columns) / double(run.model.layers),
        1.0, 1e-9);
  }
}

TEST(PublishedRun, StepsTakeThePublishedTimes) {
  // Aggregate PFLOP/s in another column of the same table.
  const double pflops[] = {4.4, 8.8, 18.2, 34.6, 70.8, 143.8, 227.1, 297.4, 410.2, 502.0};
  const std::vector<PublishedRun> runs = megatron_t1_runs();
  ASSERT_EQ(runs.size(), std::size(pflops));
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_NEAR(executed_flops(runs[i]) / runs[i].step_s / (pflops[i] * 1e15), 1.0, 0.006)
        << runs[i].row;
  }
}

// A run is planned as a user would plan its configuration, apart from the split of the layers.
TEST(PublishedRun, IsPricedAsItsPlan) {
  const Hardware hardware = dgx_a100_80g();
  for (const PublishedRun& run : korthikanti_t5_runs()) {
    const RunPlan plan = plan_run(run, hardware).value();
    EXPECT_EQ(slowest_stage(plan, hardware).step, predicted_step_s(plan, hardware));
    const RunPlan users = make_plan(config_of(run), {.hardware = hardware}).value();
    EXPECT_EQ(plan.mesh, users.mesh);
    EXPECT_EQ(plan.num_microbatches, users.num_microbatches);
    EXPECT_EQ(plan.schedule.kind, users.schedule.kind);
    if (run.parallel.pp == 1) {
      EXPECT_EQ(predicted_step_s(plan, hardware), predicted_step_s(users, hardware));
    }
  }
}

double mean_error(const std::vector<PublishedRun>& runs, double flops) {
  double sum = 0.0;
  for (const PublishedRun& run : runs) {
    sum += std::abs(constant_step_s(run, flops) / run.step_s - 1.0);
  }
  return sum / double(runs.size());
}

TEST(Baselines, NoConstantSpeedHasALowerMeanError) {
  for (const std::vector<PublishedRun>& runs : {megatron_t1_runs(), korthikanti_t5_runs()}) {
    const double least = mean_error(runs, best_constant_flops(runs));
    for (double flops = 50e12; flops < 320e12; flops += 0.5e12) {
      EXPECT_GE(mean_error(runs, flops), least - 1e-12) << flops;
    }
  }
}

// The roofline leaves out whatever makes a run slower than its FLOPs and bytes.
TEST(Baselines, TheRooflineIsFasterThanEveryMeasuredRun) {
  for (const PublishedRun& run : all_runs()) {
    EXPECT_LT(roofline_step_s(run, dgx_a100_80g()), run.step_s) << run.row;
  }
}

}  // namespace
}  // namespace trireme
