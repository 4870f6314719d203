#include "session/session.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/json_text.h"
#include "schema/run_config_fields.h"
#include "session/held_folders.h"
#include "session/resumed_config.h"
#include "session/session_fixture.h"
#include "tokenizer/byte_tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Session : public SessionTest {
 protected:
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(root_ / name).rdbuf();
    return text.str();
  }

  // A run stopped at step 3 of 6.
  RunConfig half_done(const std::string& folder) const {
    RunConfig config = tiny_run(ComputeChoice::Fp32, 6);
    config.run.stop_after = 3;
    EXPECT_TRUE(outcome_of(config, folder).result.ok());
    config.run.stop_after = 0;
    return config;
  }
};

TEST_F(Session, AnotherModelThanThatOfTheCheckpointIsRefused) {
  const RunConfig config = half_done("run");
  const std::vector<std::pair<std::string, std::function<void(ModelConfig&)>>> others = {
      {"model.layers", [](ModelConfig& model) { model.layers = 1; }},
      {"model.heads", [](ModelConfig& model) { model.heads = 1; }},
      {"model.activation", [](ModelConfig& model) { model.activation = ActivationChoice::Relu; }},
      {"model.norm_eps", [](ModelConfig& model) { model.norm_eps = 1e-3; }},
  };
  for (const auto& [key, change] : others) {
    RunConfig other = config;
    change(other.model);
    const Outcome outcome = outcome_of(other, "run", ResumeMode::Auto);
    ASSERT_FALSE(outcome.result.ok()) << key;
    EXPECT_EQ(outcome.result.error().kind, ErrorKind::Usage);
    EXPECT_EQ(outcome.result.error().message.find(key), 0u) << outcome.result.error().message;
  }
  RunConfig same = config;
  same.model.activation = ActivationChoice::GeluTanh;  // the family's
  same.model.head_dim = 16;
  same.model.dropout = 0.1;
  const Outcome outcome = outcome_of(same, "run", ResumeMode::Auto);
  EXPECT_TRUE(outcome.result.ok());
  EXPECT_NE(outcome.messages.find("model.dropout 0.0 -> 0.1"), std::string::npos)
      << outcome.messages;
}

TEST_F(Session, ResumingTellsWhatTheConfigurationChanges) {
  RunConfig config = half_done("run");
  config.optim.lr = 1e-3;
  config.run.seed = 7;
  config.run.eval_every = 2;
  const Outcome outcome = outcome_of(config, "run", ResumeMode::Auto);
  ASSERT_TRUE(outcome.result.ok());
  EXPECT_NE(outcome.messages.find("with other settings: optim.lr 0.005 -> 0.001, run.seed "),
            std::string::npos)
      << outcome.messages;
  EXPECT_EQ(outcome.messages.find("eval_every"), std::string::npos);
}

TEST_F(Session, AFinishedRunIsLeftAsItIs) {
  RunConfig served = tiny_run(ComputeChoice::Fp32, 4);
  served.batch.global_sequences = 8;
  served.parallel.dp = 2;
  served.parallel.sync = GradSync::ParameterServer;
  served.parallel.staleness = 1;
  const std::vector<std::pair<std::string, RunConfig>> runs = {
      {"plain", tiny_run(ComputeChoice::Fp32, 4)}, {"served", served}};
  for (const auto& [name, config] : runs) {
    ASSERT_TRUE(outcome_of(config, name).result.ok());
    const std::string summary = text_of(name + "/summary.json");
    const std::string metrics = text_of(name + "/metrics.jsonl");
    const Outcome again = outcome_of(config, name, ResumeMode::Auto);
    ASSERT_TRUE(again.result.ok()) << again.result.error().message;
    EXPECT_EQ(again.result->position.step, 4);
    EXPECT_NE(again.messages.find("raise run.steps"), std::string::npos) << again.messages;
    EXPECT_EQ(text_of(name + "/summary.json"), summary);
    EXPECT_EQ(text_of(name + "/metrics.jsonl"), metrics);
  }
}

// Each op of the layers once, in the order of F, with a price and a time.
TEST_F(Session, TheOpsOfTheFirstStepsStandBesideTheirPrices) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 8);
  config.parallel.pp = 2;
  ASSERT_TRUE(outcome_of(config, "run").result.ok());
  const auto summary = parse_json(text_of("run/summary.json"));
  ASSERT_FALSE(summary.at("ops").empty());
  EXPECT_EQ(summary.at("ops").front().at("unit"), "embedding");
  std::set<std::pair<std::string, std::string>> names;
  for (const auto& op : summary.at("ops")) {
    EXPECT_TRUE(names.emplace(op.at("unit"), op.at("op")).second) << op;
    EXPECT_GT(op.at("predicted_s").get<double>(), 0.0) << op;
    EXPECT_GT(op.at("measured_s").get<double>(), 0.0) << op;
  }
}

// The actions of a pair take turns while their transfers travel. What one waits for in the turn of
// the other is time of neither.
TEST_F(Session, NoOpOfAPairTakesLessThanNoTime) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 8);
  config.model.layers = 4;
  config.model.family = ModelFamily::Moe;
  config.model.experts = 4;
  config.model.top_k = 2;
  config.batch.global_sequences = 16;
  config.parallel.dp = 2;
  config.parallel.ep = 2;
  config.parallel.pp = 2;
  config.parallel.schedule = ScheduleKind::Dualpipe;
  config.parallel.pair = true;
  ASSERT_TRUE(outcome_of(config, "run").result.ok());
  const auto summary = parse_json(text_of("run/summary.json"));
  ASSERT_FALSE(summary.at("ops").empty());
  for (const auto& op : summary.at("ops")) {
    for (const auto& half_s : op.at("measured_halves_s")) {
      EXPECT_GE(half_s.get<double>(), 0.0) << op;
    }
  }
}

// In the files of all ranks together, no stage ends a forward pass before the stage in front of it.
TEST_F(Session, TracesOfAllRanksShareOneClockAndHaveTheirNumbers) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 5);
  config.parallel.pp = 2;
  ASSERT_TRUE(outcome_of(config, "run").result.ok());
  std::map<int, std::map<int64_t, double>> ends;  // of F0: [rank][step]
  double first = 1e9;
  for (const int rank : {0, 1}) {
    const auto trace = parse_json(text_of(fmt::format("run/trace.rank{}.json", rank)));
    for (const auto& event : trace.at("traceEvents")) {
      ASSERT_EQ(event.at("pid"), rank);
      if (event.at("ph") != "X") continue;
      first = std::min(first, event.at("ts").get<double>());
      if (event.at("name") != "F0") continue;
      const double end = event.at("ts").get<double>() + event.at("dur").get<double>();
      ends[rank][event.at("args").at("step").get<int64_t>()] = end;
    }
  }
  EXPECT_NEAR(first, 0.0, 1e-3);
  ASSERT_EQ(ends[0].size(), 3u);
  for (const auto& [step, end] : ends[0]) EXPECT_LT(end, ends[1].at(step)) << step;
}

TEST_F(Session, AStopBehindTheRunIsRefused) {
  RunConfig config = half_done("run");
  config.run.stop_after = 3;
  const Outcome outcome = outcome_of(config, "run", ResumeMode::Auto);
  ASSERT_FALSE(outcome.result.ok());
  EXPECT_EQ(outcome.result.error().message.find("run.stop_after = 3, but the run is at step 3"),
            0u);
}

// A second run uses the folder while the first one is running.
TEST_F(Session, AFolderIsUsedByOneRunAtATime) {
  class Intruder : public RunObserver {
   public:
    explicit Intruder(std::function<void()> intrude) : intrude_(std::move(intrude)) {}
    void on_step(const StepReport& report) override {
      if (report.step == 2) intrude_();
    }

   private:
    std::function<void()> intrude_;
  };
  const RunConfig config = tiny_run(ComputeChoice::Fp32, 3);
  std::vector<std::string> refusals;
  const auto refuse = [&](const Error* error) {
    refusals.push_back(error == nullptr ? "none" : error->message);
  };
  Intruder intruder([&] {
    for (const ResumeMode resume : {ResumeMode::Auto, ResumeMode::Fresh}) {
      const Outcome second = outcome_of(config, "run", resume);
      refuse(second.result.ok() ? nullptr : &second.result.error());
      const Status checked = check_run_folder(path("run"), resume);
      refuse(checked.ok() ? nullptr : &checked.error());
    }
  });
  EXPECT_TRUE(outcome_of(config, "run", ResumeMode::Fresh, &intruder).result.ok());
  EXPECT_EQ(refusals.size(), 4u);
  for (const std::string& refusal : refusals) {
    EXPECT_NE(refusal.find("is in use by another run"), std::string::npos) << refusal;
  }
  EXPECT_TRUE(check_run_folder(path("run"), ResumeMode::Auto).ok());
  EXPECT_NE(check_run_folder(path("run"), ResumeMode::Fresh).error().message.find("not empty"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(path("run/.lock")));
}

TEST_F(Session, AWarmupBeyondTheRunIsTold) {
  for (const int64_t warmup_steps : {2, 3}) {
    RunConfig config = tiny_run(ComputeChoice::Fp32, 2);
    config.optim.warmup_steps = warmup_steps;
    const Outcome outcome = outcome_of(config, fmt::format("warmup-{}", warmup_steps));
    EXPECT_TRUE(outcome.result.ok()) << outcome.result.error().message;
    const bool is_warned =
        outcome.messages.find("optim.warmup_steps = 3 is beyond run.steps = 2") !=
        std::string::npos;
    EXPECT_EQ(is_warned, warmup_steps > 2) << outcome.messages;
  }
}

// The warning is printed once, before the first step, and only if no rank can write samples.
TEST_F(Session, SamplesThatNoRankCanWriteAreTold) {
  fs::create_directories(root_);
  ASSERT_TRUE(save_tokenizer(ByteTokenizer(), path("tokenizer.json")).ok());
  for (const int tp : {1, 2}) {
    RunConfig config = tiny_run(ComputeChoice::Fp32, 2);
    config.model.vocab_size = ByteTokenizer().vocab_size();
    config.data.tokenizer = path("tokenizer.json");
    config.parallel.tp = tp;
    config.run.sample_every = 1;
    class Samples : public RunObserver {
     public:
      void on_sample(const SampleReport&) override { ++count; }
      int count = 0;
    } samples;
    const Outcome outcome =
        outcome_of(config, fmt::format("samples-{}", tp), ResumeMode::Fresh, &samples);
    ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
    const size_t position =
        outcome.messages.find("run.sample_every writes no samples during training");
    EXPECT_EQ(position != std::string::npos, tp > 1) << outcome.messages;
    EXPECT_EQ(outcome.messages.find("run.sample_every", position + 1), std::string::npos)
        << outcome.messages;
    EXPECT_EQ(samples.count, tp > 1 ? 0 : 2);
  }
}

// The layers of each rank call the other rank; the cost of such a call is measured before step 1.
TEST_F(Session, APredictionPaysForCallsBetweenRanks) {
  hardware_ = std::nullopt;
  for (const int tp : {1, 2}) {
    RunConfig config = tiny_run(ComputeChoice::Fp32, 2);
    config.parallel.tp = tp;
    const std::string folder = fmt::format("tp-{}", tp);
    ASSERT_TRUE(outcome_of(config, folder).result.ok());
    const auto plan = parse_json(text_of(folder + "/plan.json"));
    for (const auto& rank : plan.at("ranks")) {
      const double exposed_s = rank.at("time").at("predicted").at("exposed").at("tp");
      EXPECT_EQ(exposed_s > 0.0, tp > 1);
    }
  }
}

// The times are predicted by the file if there is one. The MFU is always of a measured peak.
TEST_F(Session, ARunMeasuresItsKernelsOnlyWithoutAHardwareFile) {
  for (const bool has_file : {true, false}) {
    if (!has_file) hardware_ = std::nullopt;
    const std::string folder = has_file ? "file" : "measured";
    RunConfig config = tiny_run(ComputeChoice::Fp32, 2);
    config.parallel.dp = 2;
    ASSERT_TRUE(outcome_of(config, folder).result.ok());
    const auto summary = parse_json(text_of(folder + "/summary.json"));
    const std::string measured = "this machine, measured at the start";
    EXPECT_EQ(summary.at("hardware") == measured, !has_file) << summary.at("hardware");
    EXPECT_GT(summary.at("mfu"), 0.0);
    EXPECT_GT(summary.at("step_s_predicted"), 0.0);
  }
}

// The value does not depend on how the micro-batches are spread, and the training not on the value.
TEST_F(Session, TheNoiseScaleIsToldWhenItIsDueAndIsThatOfOneRank) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 5);
  config.batch.global_sequences = 4;
  config.run.reproducible = Reproducible::Layout;
  const std::vector<StepReport> plain = reports_of(config, "plain");
  config.run.noise_scale_every = 2;
  const std::vector<StepReport> one_rank = reports_of(config, "one_rank");
  config.parallel.dp = 4;
  const std::vector<StepReport> four_ranks = reports_of(config, "four_ranks");
  ASSERT_EQ(four_ranks.size(), 5u);
  for (size_t i = 0; i < one_rank.size(); ++i) {
    EXPECT_EQ(one_rank[i].loss, plain[i].loss);
    EXPECT_EQ(one_rank[i].noise_scale, four_ranks[i].noise_scale) << "step " << i + 1;
    EXPECT_FALSE(i % 2 == 0 && one_rank[i].noise_scale) << "step " << i + 1;
  }
  ASSERT_TRUE(one_rank[3].noise_scale);
  const auto summary = parse_json(text_of("four_ranks/summary.json"));
  EXPECT_EQ(summary.at("noise_scale").get<double>(), *one_rank[3].noise_scale);
}

TEST_F(Session, ChecksForCorruptionChangeNoNumberAndAreCounted) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 5);
  config.batch.global_sequences = 4;
  config.parallel.dp = 2;
  const std::vector<StepReport> plain = reports_of(config, "plain");
  config.run.check_state_every = 2;
  config.run.replay_every = 2;
  config.run.replay_elsewhere_every = 3;
  config.run.check_products_every = 4;
  const std::vector<StepReport> checked = reports_of(config, "checked");
  ASSERT_EQ(checked.size(), plain.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(checked[i].loss, plain[i].loss);
  const auto counts = parse_json(text_of("checked/summary.json")).at("corruption_checks");
  EXPECT_EQ(counts.at("state_checks"), 3);  // after steps 2 and 4, and before the last save
  EXPECT_EQ(counts.at("replays"), 2);
  EXPECT_EQ(counts.at("replays_elsewhere"), 1);
  EXPECT_GT(counts.at("products"), 0);
  EXPECT_EQ(counts.at("compared_bytes"), counts.at("state_bytes"));
}

TEST_F(Session, ANoiseScaleWithoutASmallerBatchIsRefused) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 5);
  config.run.noise_scale_every = 2;
  const auto expect_refused = [&](const char* remedy) {
    const Outcome outcome = outcome_of(config, "run");
    ASSERT_FALSE(outcome.result.ok());
    const std::string& message = outcome.result.error().message;
    EXPECT_EQ(message.find("run.noise_scale_every = 2"), 0u) << message;
    EXPECT_NE(message.find(remedy), std::string::npos) << message;
  };
  config.batch.global_sequences = 1;
  expect_refused("batch.micro_sequences smaller");
  config.batch.global_sequences = 4;
  config.model.family = ModelFamily::Moe;
  config.model.tied_head = false;
  config.model.experts = 4;
  expect_refused("model.aux_loss = 0");
}

// The last good checkpoint stays, and the run ends with an error that says what to change.
TEST_F(Session, ADivergedRunEndsAndPushesOutNoGoodCheckpoint) {
  RunConfig config = half_done("run");
  config.optim.lr = 1e30;
  config.optim.clip_norm = 0.0;
  config.run.steps = 200;
  config.checkpoint.every = 5;
  config.checkpoint.keep = 1;
  const Outcome outcome = outcome_of(config, "run", ResumeMode::Auto);
  ASSERT_FALSE(outcome.result.ok());
  EXPECT_EQ(outcome.result.error().kind, ErrorKind::Runtime);
  EXPECT_NE(outcome.result.error().message.find("lower optim.lr"), std::string::npos);
  EXPECT_NE(outcome.messages.find("not saved: the loss is not finite"), std::string::npos);
  EXPECT_TRUE(fs::exists(path("run/checkpoints/step-000003")));
}

TEST_F(Session, ARunThatCannotSaveItsLastStepDoesNotSayThatItDid) {
  RunConfig config = half_done("run");
  config.optim.lr = 1e30;
  config.optim.clip_norm = 0.0;
  config.run.steps = 30;
  for (const int64_t stop_after : {10, 0}) {
    config.run.stop_after = stop_after;
    const Outcome outcome = outcome_of(config, "run", ResumeMode::Auto);
    ASSERT_FALSE(outcome.result.ok()) << stop_after;
    EXPECT_EQ(outcome.result.error().kind, ErrorKind::Runtime);
    EXPECT_NE(outcome.result.error().message.find("without a checkpoint of its last step"),
              std::string::npos)
        << outcome.result.error().message;
  }
}

TEST_F(Session, MetricsHaveTheNameOfTheFolderOfTheRunAlsoIfASlashEndsIt) {
  fs::create_directories(root_);
  RunConfig config = tiny_run(ComputeChoice::Fp32, 1);
  config.run.prometheus_file = path("metrics.prom");
  ASSERT_TRUE(outcome_of(config, "demo/").result.ok());
  EXPECT_NE(text_of("metrics.prom").find("{run=\"demo\""), std::string::npos);
}

// The keys of a model that may change when its run resumes. Every other key decides what the
// weights compute.
TEST_F(Session, EveryKeyOfAModelIsComparedOrMayChange) {
  const std::set<std::string> may_change = {"model.preset",
                                            "model.seq_len",
                                            "model.dropout",
                                            "model.init_stddev",
                                            "model.init_scale_residual",
                                            "model.capacity_factor",
                                            "model.aux_loss",
                                            "model.z_loss",
                                            "model.mtp_loss_weight",
                                            "model.balance_rate"};
  const RunConfig config;
  for (const ConfigField& field : config_fields(config)) {
    if (field.section != "model") continue;
    EXPECT_NE(is_model_key(field.key()), may_change.contains(field.key())) << field.key();
  }
}

}  // namespace
}  // namespace trireme
