#include "serving/serving_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "serving/plan_serving.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const fs::path kServingConfigs =
    fs::path(__FILE__).parent_path().parent_path().parent_path() / "configs" / "serving";

constexpr std::string_view kTiersText =
    "[tiers.edge]\n"          // 1
    "bytes_per_s = 100.0\n"   // 2
    "price_per_gb = 1.0\n"    // 3
    "[tiers.cloud]\n"         // 4
    "[workers.board]\n"       // 5
    "tier = \"edge\"\n"       // 6
    "workers = 3\n"           // 7
    "price_per_hour = 0.1\n"  // 8
    "memory_bytes = 10\n"     // 9
    "[workers.gpu]\n"         // 10
    "tier = \"cloud\"\n"      // 11
    "workers = 3\n"           // 12
    "price_per_hour = 2.0\n"  // 13
    "memory_bytes = 50\n";    // 14
constexpr std::string_view kPipelineText =
    "[pipeline]\n"                               // 1
    "accuracy = 0.7\n"                           // 2
    "utilization = 0.8\n"                        // 3
    "[sources.camera]\n"                         // 4
    "tier = \"edge\"\n"                          // 5
    "items_per_s = 10\n"                         // 6
    "item_bytes = 4\n"                           // 7
    "[operators.detector]\n"                     // 8
    "inputs = { camera = 1.0 }\n"                // 9
    "[operators.detector.models.small]\n"        // 10
    "accuracy = 0.8\n"                           // 11
    "memory_bytes = 5\n"                         // 12
    "output_bytes = 1\n"                         // 13
    "speeds = { board = 5.0, gpu = 50.0 }\n"     // 14
    "[operators.detector.models.large]\n"        // 15
    "accuracy = 0.95\n"                          // 16
    "memory_bytes = 40\n"                        // 17
    "speeds = { board = 1.0, gpu = 10.0 }\n"     // 18
    "[operators.tracker]\n"                      // 19
    "inputs = { detector = 2.0 }\n"              // 20
    "[operators.tracker.models.only]\n"          // 21
    "accuracy = 0.9\n"                           // 22
    "speeds = { board = 30.0, gpu = 200.0 }\n";  // 23

std::string edited(std::string_view text, const std::string& from, const std::string& to) {
  std::string changed(text);
  const size_t at = changed.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return changed.replace(at, from.size(), to);
}

Tiers tiers_of(std::string_view text = kTiersText) {
  const Result<Tiers> tiers = parse_tiers(text, "tiers.toml", "");
  EXPECT_TRUE(tiers.ok()) << (tiers.ok() ? "" : tiers.error().message);
  return tiers.value();
}

TEST(ServingFiles, AreRead) {
  const Tiers tiers = tiers_of();
  ASSERT_EQ(tiers.tiers.size(), 2u);
  EXPECT_EQ(tiers.tiers[1].name, "cloud");
  EXPECT_EQ(tiers.kinds[1].tier, 1);
  const Result<ServedPipeline> pipeline = parse_pipeline(kPipelineText, "p.toml", "", tiers);
  ASSERT_TRUE(pipeline.ok()) << pipeline.error().message;
  EXPECT_EQ(pipeline->rates(), (std::vector<double>{10.0, 20.0}));
  EXPECT_DOUBLE_EQ(pipeline->accuracy_of({1, 0}), 0.95 * 0.9);
  EXPECT_EQ(pipeline->operators[0].models[0].speeds.at("gpu"), 50.0);
}

TEST(ServingFiles, TakeOperatorsInAnyOrder) {
  const std::string tracker =
      std::string(kPipelineText.substr(kPipelineText.find("[operators.tr")));
  const std::string first =
      tracker + std::string(kPipelineText.substr(0, kPipelineText.find("[operators.tr")));
  const Result<ServedPipeline> pipeline = parse_pipeline(first, "p.toml", "", tiers_of());
  ASSERT_TRUE(pipeline.ok()) << pipeline.error().message;
  EXPECT_EQ(pipeline->operators[0].name, "detector");
}

TEST(ServingFiles, AreRefusedWithTheLineAndARemedy) {
  struct Refused {
    std::string from, to, message;
  };
  const Refused pipelines[] = {
      {"inputs = { camera = 1.0 }", "inputs = { camera = 1.0, tracker = 1.0 }",
       "p.toml:9: the operators have a cycle: detector reads tracker, which reads detector. Data "
       "flow one way, so take one of these inputs out"},
      {"inputs = { camera = 1.0 }", "inputs = { detector = 1.0 }",
       "p.toml:9: the operators have a cycle: detector reads detector. Data flow one way, so take "
       "one of these inputs out"},
      {"camera = 1.0", "camra = 1.0",
       "p.toml:9: [operators.detector] reads camra, which is no source and no operator; did you "
       "mean camera?"},
      {"tier = \"edge\"", "tier = \"egde\"",
       "p.toml:5: [sources.camera] is in the tier egde, which the tiers do not have; did you mean "
       "edge?"},
      {"board = 5.0", "bord = 5.0",
       "p.toml:11: [operators.detector.models.small] has a speed on bord, of which the tiers have "
       "no workers; did you mean board?"},
      {"accuracy = 0.8\n", "acuracy = 0.8\n",
       "p.toml:11: operators.detector.models.small.acuracy is unknown; did you mean accuracy?"},
      {"accuracy = 0.8\n", "accuracy = 1.8\n",
       "p.toml:11: operators.detector.models.small.accuracy = 1.8 must be from 0 to 1"},
      {"speeds = { board = 30.0, gpu = 200.0 }\n", "",
       "p.toml:22: [operators.tracker.models.only] has no speeds: say how many items per second "
       "one worker of a kind does, such as speeds = { NAME = 20.0 }, or name a language model with "
       "model"},
      {"[operators.tracker.models.only]\naccuracy = 0.9\nspeeds = { board = 30.0, gpu = 200.0 }\n",
       "", "p.toml:20: [operators.tracker] has no model: add [operators.tracker.models.NAME]"},
      {"items_per_s = 10\n", "", "p.toml:5: [sources.camera] must say items_per_s"},
      {"[pipeline]\n", "[pipeline]\naccuracy_rule = \"measured\"\n",
       "pipeline.accuracy_rule = \"measured\" needs [combinations.NAME] with the accuracy of every "
       "combination of models that may be chosen"},
      {"inputs = { detector = 2.0 }", "inputs = { detector = 2.0, camera = 1.0 }",
       "p.toml:20: [operators.tracker] joins one item of each input, but camera brings 10 and "
       "detector 20 items per second: change the numbers of inputs"},
      {"memory_bytes = 5\n", "memory_bytes = 5\nmodel = \"missing.toml\"\nprompt_tokens = 5\n",
       "p.toml:11: [operators.detector.models.small] missing.toml: no such file"},
      {"speeds = { board = 5.0, gpu = 50.0 }\n", "measured = { board = \"speed.json\" }\n",
       "p.toml:11: [operators.detector.models.small] has a measurement of generate but names no "
       "language model, such as model = \"../../models/llama3-8b.toml\"\n"
       "p.toml:11: [operators.detector.models.small] has no speeds: say how many items per second "
       "one worker of a kind does, such as speeds = { NAME = 20.0 }, or name a language model with "
       "model"},
      {"utilization = 0.8\n", "p95_latency_s = -1\n",
       "p.toml:3: pipeline.p95_latency_s = -1 must be from 0 to 1e+09"},
      {"[pipeline]\n", "[pipelines]\nx = 1\n[pipeline]\n",
       "p.toml:2: pipelines.x is unknown; a pipeline has [pipeline], [sources.NAME], "
       "[operators.NAME], [operators.NAME.models.NAME] and [combinations.NAME]; names have no "
       "dots"},
  };
  for (const Refused& one : pipelines) {
    const auto read =
        parse_pipeline(edited(kPipelineText, one.from, one.to), "p.toml", "", tiers_of());
    ASSERT_FALSE(read.ok()) << one.message;
    EXPECT_EQ(read.error().kind, ErrorKind::Usage);
    EXPECT_EQ(read.error().message, one.message);
  }
  const Refused tiers[] = {
      {"tier = \"edge\"", "tier = \"egde\"",
       "tiers.toml:6: [workers.board] is in the tier egde, which is not there; did you mean edge?"},
      {"memory_bytes = 10\n", "",
       "tiers.toml:6: [workers.board] must say memory_bytes, or name with cluster a hardware file "
       "that does"},
      {"workers = 3", "workers = -3",
       "tiers.toml:7: workers.board.workers = -3 must be from 0 to 1e+06"},
      {"memory_bytes = 10\n", "cluster = \"missing.toml\"\n",
       "tiers.toml:6: [workers.board] missing.toml: no such file"},
  };
  std::string many;
  for (int i = 0; i < 32; ++i) many += "[tiers.t" + std::to_string(i) + "]\n";
  const auto beyond = parse_tiers(many + std::string(kTiersText), "tiers.toml", "");
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().message.substr(0, beyond.error().message.find('\n')),
            "tiers.toml:34: [tiers.edge] is one more than the 32 tiers that there may be: join it "
            "with a neighbour");
  for (const Refused& one : tiers) {
    const auto read = parse_tiers(edited(kTiersText, one.from, one.to), "tiers.toml", "");
    ASSERT_FALSE(read.ok()) << one.message;
    // The names of the built-in clusters stand on a line of their own.
    EXPECT_EQ(read.error().message.substr(0, read.error().message.find('\n')), one.message);
  }
}

// What the message asks for is enough.
TEST(RefuseServing, SaysWhichLimitBindsAndWhatWouldBeEnough) {
  struct Refused {
    double target;
    std::string from, to;  // of the pipeline
    std::string tiers_from, tiers_to;
    std::string message;
  };
  const Refused cases[] = {
      {0.9, "", "", "", "",
       "no models reach the accuracy 0.9: the most that they reach, of detector=large, "
       "tracker=only, is 0.855. Ask for less, or add a more accurate model. What would be enough:\n"
       "  --accuracy 0.855: the most for which there is a plan"},
      {0.8, "", "", "memory_bytes = 50", "memory_bytes = 30",
       "no worker holds a model of the operator detector with this accuracy. What would be enough, "
       "each alone:\n  [workers.gpu] memory_bytes = 40 instead of 30, for large\n"
       "  --accuracy 0.72: the most for which there is a plan"},
      {0.8, "items_per_s = 10", "items_per_s = 18", "", "",
       "the workers are too few for the rates at this accuracy: they hold 88.88 % of the rates of "
       "the sources. What would be enough, each alone:\n"
       "  [workers.gpu] workers = 4 instead of 3\n"
       "  pipeline.utilization = 0.9 instead of 0.8\n"
       "  --accuracy 0.72: the most for which there is a plan"},
      {0.8, "", "", "bytes_per_s = 100.0", "bytes_per_s = 45.0",
       "the bytes per second of the links are too few for the rates at this accuracy: they hold 90 "
       "% of the rates of the sources. What would be enough, each alone:\n"
       "  [tiers.edge] bytes_per_s = 50 instead of 45\n"
       "  pipeline.utilization = 0.8889 instead of 0.8\n"
       "  --accuracy 0.72: the most for which there is a plan"},
  };
  for (const Refused& one : cases) {
    const Tiers tiers =
        tiers_of(one.tiers_from.empty() ? std::string(kTiersText)
                                        : edited(kTiersText, one.tiers_from, one.tiers_to));
    const auto pipeline = parse_pipeline(
        one.from.empty() ? std::string(kPipelineText) : edited(kPipelineText, one.from, one.to),
        "p.toml", "", tiers);
    ASSERT_TRUE(pipeline.ok()) << pipeline.error().message;
    const auto answer = plan_serving(*pipeline, tiers, one.target);
    ASSERT_FALSE(answer.ok()) << one.message;
    EXPECT_EQ(answer.error().kind, ErrorKind::Infeasible);
    EXPECT_EQ(answer.error().message, one.message);
  }
}

// A kind of workers that could hold the model, but has too few workers for the rates, is not named.
TEST(RefuseServing, NamesOnlyMemoryWithWhichThereIsAPlan) {
  Tiers tiers = load_tiers((kServingConfigs / "tiers.toml").string()).value();
  ServedPipeline pipeline = load_pipeline((kServingConfigs / "video.toml").string(), tiers).value();
  for (ServedModel& model : pipeline.operators[0].models) {
    if (model.name == "large") model.memory_bytes = 40e9;
  }
  const auto answer = plan_serving(pipeline, tiers, 0.88);
  ASSERT_FALSE(answer.ok());
  int num_named = 0;
  for (WorkerKind& kind : tiers.kinds) {
    const std::string remedy = "[workers." + kind.name + "] memory_bytes = 40000000000 instead";
    const bool is_named = answer.error().message.find(remedy) != std::string::npos;
    const double before = std::exchange(kind.memory_bytes, 40e9);
    EXPECT_EQ(plan_serving(pipeline, tiers, 0.88).ok(), is_named) << answer.error().message;
    kind.memory_bytes = before;
    num_named += is_named ? 1 : 0;
  }
  EXPECT_GT(num_named, 0);
  EXPECT_LT(num_named, int(tiers.kinds.size()));
  for (WorkerKind& kind : tiers.kinds) {
    kind.memory_bytes = 1e6;
    kind.workers = 1;
  }
  const auto none = plan_serving(pipeline, tiers, 0.72);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("No single limit is enough. The operator needs at least"),
            std::string::npos)
      << none.error().message;
}

TEST(ServingConfigs, HaveAPlanWhoseFlowsAreFeasible) {
  for (const auto& [name, tiers_name] : {std::pair{"video.toml", "tiers.toml"},
                                         {"speech.toml", "tiers.toml"},
                                         {"assistant.toml", "language_tiers.toml"}}) {
    const Result<Tiers> tiers = load_tiers((kServingConfigs / tiers_name).string());
    ASSERT_TRUE(tiers.ok()) << tiers.error().message;
    const Result<ServedPipeline> pipeline =
        load_pipeline((kServingConfigs / name).string(), *tiers);
    ASSERT_TRUE(pipeline.ok()) << pipeline.error().message;
    const Result<ServingAnswer> answer = plan_serving(*pipeline, *tiers, pipeline->accuracy);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_TRUE(broken_limits(deployment_problem(*pipeline, *tiers, answer->plan.choice),
                              answer->plan.deployment)
                    .empty());
    const int best = answer->best_single_tier();
    if (best >= 0) {
      EXPECT_GE(answer->saved_of(*answer->cost_on(size_t(best))), -1e-9);
    }
  }
}

}  // namespace
}  // namespace trireme
