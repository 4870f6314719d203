#include "cli/plan_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/json_text.h"
#include "cli/command_fixture.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

const std::filesystem::path kRoot = std::filesystem::path(__FILE__).parent_path() / ".." / "..";

// Returns the JSON that `plan` prints for dp ranks on a described cluster.
Result<Json> printed(int dp, std::optional<int> rank) {
  std::ostringstream out, err;
  CommandIo io{out, err};
  PlanOptions options{.cluster = (kRoot / "clusters" / "dgx-h100.toml").string(), .json = true};
  options.config.files = {(kRoot / "configs" / "tiny-gpt2.toml").string()};
  options.config.overrides = {"parallel.dp=" + std::to_string(dp), "parallel.pp=2",
                              "parallel.zero=2", "batch.micro_sequences=1",
                              "batch.global_sequences=" + std::to_string(2 * dp)};
  options.rank = rank;
  TRIREME_TRY(code, run_plan(options, io));
  EXPECT_EQ(code, 0);
  return parse_json(out.str());
}

// Classes count every rank once. Each listed rank equals what --rank prints for it and what one of
// the classes says.
TEST(PlanCommand, PrintsClassesAndListsUpToSixtyFourRanks) {
  for (const int dp : {4, 32, 33}) {
    const Json plan = printed(dp, std::nullopt).value();
    for (const char* key : {"step", "tokens_per_s", "mfu", "peak", "arena"}) {
      EXPECT_GT(plan[key].get<double>(), 0.0) << key;
    }
    int num_ranks = 0;
    for (const Json& alike : plan["classes"]) num_ranks += alike["ranks"].get<int>();
    EXPECT_EQ(num_ranks, 2 * dp);
    EXPECT_EQ(plan.contains("ranks"), 2 * dp <= 64);
    if (!plan.contains("ranks")) continue;
    ASSERT_EQ(plan["ranks"].size(), size_t(2 * dp));
    EXPECT_EQ(printed(dp, 5).value(), plan["ranks"][5]);
    for (const Json& alike : plan["classes"]) {
      const Json& first = plan["ranks"][alike["first"].get<size_t>()];
      for (const char* key : {"coords", "memory", "traffic", "time"}) {
        EXPECT_EQ(alike[key], first[key]) << key;
      }
    }
  }
}

// The text and the JSON say how the largest collectives of every axis were priced.
TEST(PlanCommand, SaysHowTheCollectivesOfEveryAxisWerePriced) {
  const auto printed_with = [](bool json, const std::string& sequence) {
    std::ostringstream out, err;
    CommandIo io{out, err};
    PlanOptions options{.cluster = (kRoot / "clusters" / "dgx-h100.toml").string(), .json = json};
    options.config.files = {(kRoot / "configs" / "tiny-llama.toml").string()};
    // Messages of 128 MiB: the switch of a node adds them.
    options.config.overrides = {"parallel.dp=16",
                                "parallel.tp=4",
                                "parallel.pp=2",
                                "parallel.sequence=" + sequence,
                                "model.d_model=4096",
                                "model.seq_len=8192",
                                "model.layers=2",
                                "batch.micro_sequences=1",
                                "batch.global_sequences=16"};
    EXPECT_TRUE(run_plan(options, io).ok());
    return out.str();
  };
  const auto of_axis = [](const Json& plan, const std::string& axis) {
    std::map<std::string, Json> found;
    for (const Json& one : plan["collectives"]) {
      if (one["axis"] == axis) found[one["collective"].get<std::string>()] = one;
    }
    return found;
  };
  const Json sums = parse_json(printed_with(true, "false"));
  const auto tp = of_axis(sums, "tp"), dp = of_axis(sums, "dp"), pp = of_axis(sums, "pp");
  ASSERT_TRUE(tp.contains("all_reduce"));
  EXPECT_EQ(tp.at("all_reduce")["method"], "sums in the switch");
  EXPECT_TRUE(tp.at("all_reduce")["sums_in_switch"].get<bool>());
  EXPECT_EQ(tp.at("all_reduce")["ranks"], 4);
  ASSERT_TRUE(dp.contains("all_reduce"));
  EXPECT_FALSE(dp.at("all_reduce")["sums_in_switch"].get<bool>());
  EXPECT_EQ(dp.at("all_reduce")["stride"], 8);  // tp x pp
  EXPECT_GT(dp.at("all_reduce")["seconds"].get<double>(), 0.0);
  EXPECT_TRUE(pp.contains("send"));
  const Json halves = parse_json(printed_with(true, "true"));
  EXPECT_EQ(of_axis(halves, "tp").at("all_gather")["method"], "ring");
  EXPECT_TRUE(of_axis(halves, "tp").at("all_gather").contains("protocol"));
  const std::string text = printed_with(false, "false");
  EXPECT_NE(text.find("tp all_reduce of 4 ranks: sums in the switch, 128.0 MiB in all in "),
            std::string::npos)
      << text;
}

// The plan, the alternatives of --explain and the layouts of --search print what a rank allocates
// as its peak.
TEST(PlanCommand, PeakIsWhatARankAllocatesInEveryText) {
  const auto text_of = [](bool explain, bool search) {
    std::ostringstream out, err;
    CommandIo io{out, err};
    PlanOptions options{.cluster = (kRoot / "clusters" / "dgx-h100.toml").string()};
    options.explain = explain;
    if (search) options.search = "";
    options.config.files = {(kRoot / "configs" / "tiny-gpt2.toml").string()};
    EXPECT_TRUE(run_plan(options, io).ok());
    return out.str();
  };
  const auto found = [](const std::string& text, const char* pattern) {
    std::smatch match;
    EXPECT_TRUE(std::regex_search(text, match, std::regex(pattern))) << text;
    return match.empty() ? std::string() : match[1].str();
  };
  const Json plan = printed(4, std::nullopt).value();
  EXPECT_GE(plan["arena"], plan["peak"]);
  const std::string text = text_of(true, false), peak = found(text, "\n  peak +([0-9.]+ .i?B)\n");
  EXPECT_EQ(found(text, "\n  [a-z]+ +[0-9]+ +([0-9.]+ .i?B) .* configured\n"), peak);
  EXPECT_NE(text.find("micro_sequences       peak "), std::string::npos) << text;
  EXPECT_NE(text_of(false, true).find("MFU       peak "), std::string::npos);
}

// The code of the action that uses the most memory is followed by its meaning.
TEST(PlanCommand, ExplainSaysWhatTheCodeOfItsActionMeans) {
  const auto explained = [](const std::vector<std::string>& overrides) {
    std::ostringstream out, err;
    CommandIo io{out, err};
    PlanOptions options{.cluster = (kRoot / "clusters" / "dgx-h100.toml").string()};
    options.explain = true;
    options.config.files = {(kRoot / "configs" / "tiny-gpt2.toml").string()};
    options.config.overrides = overrides;
    EXPECT_TRUE(run_plan(options, io).ok());
    const std::string text = out.str(), begin = "rank 0 uses the most memory at ";
    return text.substr(text.find(begin) + begin.size(), 120);
  };
  const std::string whole = explained({});
  EXPECT_EQ(whole.find("BW"), 0u) << whole;
  EXPECT_NE(whole.find("(BW both gradients, 3 micro-batch 3)"), std::string::npos) << whole;
  const std::string chunks =
      explained({"parallel.pp=2", "parallel.schedule=zb_v", "batch.micro_sequences=1"});
  EXPECT_NE(chunks.find(", 3.1 micro-batch 3 of chunk 1"), std::string::npos) << chunks;
}

// With data.document_mask the text and the JSON say how attention is counted, also where the data
// cannot be read.
TEST(PlanCommand, SaysHowItCountsAttentionWithinDocuments) {
  const auto planned = [](const std::vector<std::string>& overrides, bool json) {
    std::ostringstream out, err;
    CommandIo io{out, err};
    PlanOptions options{.cluster = (kRoot / "clusters" / "dgx-h100.toml").string()};
    options.json = json;
    options.config.files = {(kRoot / "configs" / "tiny-gpt2.toml").string()};
    options.config.overrides = overrides;
    options.config.overrides.push_back("data.document_mask=true");
    EXPECT_TRUE(run_plan(options, io).ok());
    return out.str();
  };
  const auto has = [](const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << words << ": " << text;
  };
  has(planned({}, true), "causal attention within documents (document_keys); no");
  has(planned({}, false), "a query sees ");
  // Tokens of another program, without a tokenizer: nobody knows where documents end.
  const std::string folder = testing::TempDir() + "/plan-documents-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const std::string bin = folder + "/some.bin", tokens = folder + "/some.tok";
  std::ofstream(bin, std::ios::binary) << std::string(4096, '\0');
  const CommandAnswer imported =
      answer_of({"data", "import", bin, "--vocab-size", "256", "--out", tokens});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  const std::vector<std::string> endless = {"data.source=files", "data.train=" + tokens};
  has(planned(endless, true), "causal attention, as if every sequence were one document; no");
  has(planned(endless, false), "the token file does not name it: set data.tokenizer");
  // The cause is the tokenizer that cannot be read, and not that none is named.
  std::vector<std::string> unreadable = endless;
  unreadable.push_back("data.tokenizer=" + folder + "/missing.json");
  const std::string unread = planned(unreadable, false);
  has(unread, "missing.json");
  EXPECT_EQ(unread.find("does not name"), std::string::npos) << unread;
  const std::string unnamed = planned({"data.source=files"}, false);
  has(unnamed, "data.train is empty: name a token file");
  EXPECT_EQ(unnamed.find("data.tokenizer"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(PlanCommand, RefusesARankThatIsNotThere) {
  EXPECT_TRUE(printed(2, 3).ok());
  for (const int rank : {-1, 4}) {
    const Result<Json> refused = printed(2, rank);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
    EXPECT_NE(refused.error().message.find("ranks 0 to 3"), std::string::npos);
  }
}

// Runs `plan` for two tensor-parallel ranks and returns what it prints.
Result<std::string> planned_with_graph(const std::string& graph,
                                       const std::function<void(PlanOptions&)>& change = {}) {
  std::ostringstream out, err;
  CommandIo io{out, err};
  PlanOptions options{.cluster = (kRoot / "clusters" / "dgx-h100.toml").string()};
  options.config.files = {(kRoot / "configs" / "tiny-llama.toml").string()};
  options.config.overrides = {"parallel.tp=2", "parallel.sequence=true"};
  options.graph = graph;
  if (change) change(options);
  TRIREME_TRY(code, run_plan(options, io));
  EXPECT_EQ(code, 0);
  return out.str();
}

std::string content_of_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PlanCommand, TheEndingOfTheGraphsFileSaysWhatIsWritten) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "plan_graph" / "made";
  std::filesystem::remove_all(folder.parent_path());
  const std::string text = planned_with_graph("").value();
  EXPECT_EQ(text, planned_with_graph("-").value());
  EXPECT_EQ(text.find("rank tp 0, cp 0, ep 0 of tp 2"), 0u);
  EXPECT_NE(text.find("over tp: partial to shard(0)"), text.npos);
  const std::vector<std::pair<std::string, std::string>> starts = {
      {"g.txt", text}, {"g.svg", "<svg "}, {"g.html", "<!doctype html>"}};
  for (const auto& [name, start] : starts) {
    // The plan is printed beside a file.
    EXPECT_EQ(planned_with_graph((folder / name).string()).value().find("model "), 0u);
    EXPECT_EQ(content_of_file(folder / name).find(start), 0u) << name;
  }
}

TEST(PlanCommand, AnUnknownEndingOfTheGraphsFileIsRefused) {
  for (const char* name : {"graph.png", "graph", "graph.", ".svg", "graph.SVG"}) {
    const Result<std::string> refused = planned_with_graph(name);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
    EXPECT_NE(refused.error().message.find(".svg, .html or .txt"), std::string::npos);
  }
}

// An image is one sample, however the ranks share out its rows.
TEST(PlanCommand, TheGraphOfANetOfImagesCountsImages) {
  const std::string text = planned_with_graph("", [](PlanOptions& options) {
                             options.config.overrides = {"model.family=alexnet",
                                                         "model.layers=6",
                                                         "model.seq_len=1",
                                                         "data.source=synthetic",
                                                         "data.train=",
                                                         "data.val_fraction=0.0",
                                                         "model.image_size=63",
                                                         "model.image_channels=3",
                                                         "model.vocab_size=10",
                                                         "parallel.tp=2",
                                                         "batch.micro_sequences=2",
                                                         "batch.global_sequences=2"};
                           }).value();
  const std::string line = text.substr(0, text.find('\n'));
  EXPECT_NE(line.find("2 images of 63 x 63 with 3 channels"), text.npos) << line;
  EXPECT_EQ(line.find("sequence"), text.npos) << line;
}

// With ZeRO the shards of ranks differ by a few elements. In a model that is not tiny, nobody can
// tell the classes of the plan apart.
TEST(PlanCommand, ThePageShowsRanksThatLookAlikeOnce) {
  const std::string file = testing::TempDir() + "/alike.html";
  const std::string text =
      planned_with_graph("-", [&](PlanOptions& options) {
        options.config.overrides = {"parallel.dp=64", "parallel.zero=3", "batch.micro_sequences=1",
                                    "batch.global_sequences=64", "model.d_model=4096"};
        options.graph.reset();
        options.html = file;
      }).value();
  const std::string page = content_of_file(file);
  const std::string opening = "<script id=\"data\" type=\"application/json\">";
  const size_t begin = page.find(opening);
  ASSERT_NE(begin, page.npos);
  const size_t end = page.find("</script>", begin);
  const Json ranks = parse_json(page.substr(begin + opening.size(), end - begin - opening.size()))
                         .at("plan")
                         .at("ranks");
  EXPECT_EQ(ranks.at("num_ranks"), 64);
  EXPECT_LE(ranks.at("ranks").size(), 4u);
  int num_alike = 0;  // "slowest, 16 alike"
  for (const Json& rank : ranks.at("ranks")) {
    const std::string why = rank.at("why");
    const size_t number = why.find_first_of("0123456789");
    ASSERT_NE(number, why.npos) << rank.at("rank") << ": " << why;
    num_alike += std::stoi(why.substr(number));
  }
  EXPECT_EQ(num_alike, 64);
}

TEST(PlanCommand, TheGraphIsThatOfTheRank) {
  const auto at_rank = [](int rank) {
    return planned_with_graph("", [rank](PlanOptions& options) { options.rank = rank; });
  };
  EXPECT_EQ(at_rank(1).value().find("rank tp 1, "), 0u);
  EXPECT_FALSE(at_rank(2).ok());
  const Result<std::string> beside_json =
      planned_with_graph("", [](PlanOptions& options) { options.json = true; });
  ASSERT_FALSE(beside_json.ok());
  EXPECT_EQ(beside_json.error().kind, ErrorKind::Usage);
}

// Plans a model on one H100 as another trainer.
Result<Json> planned_as(const std::string& trainer, const std::vector<std::string>& overrides) {
  std::ostringstream out, err;
  CommandIo io{out, err};
  PlanOptions options{
      .cluster = (kRoot / "clusters" / "dgx-h100.toml").string(), .json = true, .as = trainer};
  options.config.files = {(kRoot / "models" / "gpt3-1.3b.toml").string()};
  options.config.overrides = {"data.source=synthetic", "precision.compute=bf16",
                              "batch.micro_sequences=1"};
  options.config.overrides.insert(options.config.overrides.end(), overrides.begin(),
                                  overrides.end());
  TRIREME_TRY(code, run_plan(options, io));
  EXPECT_EQ(code, 0);
  return parse_json(out.str());
}

TEST(PlanCommand, AnotherTrainersMemoryIsItsPartsOfTheLargestStage) {
  const std::vector<std::string> layout = {"parallel.pp=2", "batch.global_sequences=4"};
  for (const char* trainer : {"megatron", "torchtitan", "deepspeed"}) {
    const Json as = planned_as(trainer, layout).value()["as"];
    EXPECT_EQ(as["trainer"], trainer);
    ASSERT_EQ(as["stages"].size(), 2u);
    int64_t peak = 0;
    for (const Json& stage : as["stages"]) {
      int64_t sum = 0;
      for (const char* part : {"params", "grads", "optimizer", "blocks", "activations", "logits"}) {
        sum += stage[part].get<int64_t>();
      }
      EXPECT_NEAR(double(sum), stage["total"].get<double>(), 6.0);  // each is cut to a byte
      peak = std::max(peak, stage["total"].get<int64_t>());
    }
    EXPECT_EQ(as["peak"], peak);
  }
}

// Only the other trainer's memory decides whether the run fits.
TEST(PlanCommand, AnotherTrainersMemoryIsComparedWithTheDevice) {
  EXPECT_TRUE(planned_as("megatron", {"memory.limit_bytes=1000000"}).ok());
  const Result<Json> refused =
      planned_as("megatron", {"batch.micro_sequences=64", "batch.global_sequences=64"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Infeasible);
  EXPECT_NE(refused.error().message.find("megatron would need"), std::string::npos);
  EXPECT_EQ(planned_as("nemo", {}).error().kind, ErrorKind::Usage);
}

// Most rows without a model lack it for one reason, which is told once.
TEST(PlanCommand, TheLargestModelTellsEveryReasonOnce) {
  PlanOptions options{.cluster = (kRoot / "clusters" / "dgx-h100.toml").string()};
  options.config.files = {(kRoot / "configs" / "tiny-gpt2.toml").string()};
  options.config.overrides = {"optim.name=muon"};
  options.advice.max_model = true;
  std::ostringstream out, err;
  CommandIo io{out, err};
  ASSERT_EQ(run_plan(options, io).value(), 0);
  for (const char* offload : {"optimizer", "all"}) {
    const std::string reason = std::string("but memory.offload = \"") + offload + "\"";
    const size_t at = out.str().find(reason);
    ASSERT_NE(at, std::string::npos) << out.str();
    EXPECT_EQ(out.str().find(reason, at + 1), std::string::npos) << out.str();
  }
  EXPECT_NE(out.str().find("none, see 2\n"), std::string::npos) << out.str();
}

// What --failures adds to the JSON and to the text, and that the days of --tokens follow from it.
TEST(PlanCommand, ForecastsWhatFailuresCost) {
  PlanOptions options{.cluster = (kRoot / "clusters" / "dgx-h100.toml").string(), .json = true};
  options.config.files = {(kRoot / "configs" / "tiny-gpt2.toml").string()};
  options.config.overrides = {"parallel.dp=64", "batch.global_sequences=64",
                              "batch.micro_sequences=1", "checkpoint.every=1000"};
  options.advice.goodput = {.failures = "llama3", .days = 200.0};
  options.advice.token_question = {.tokens = 1e12, .price_per_hour = 2.0};
  std::ostringstream out, err;
  CommandIo io{out, err};
  ASSERT_EQ(run_plan(options, io).value(), 0);
  const Json plan = parse_json(out.str());
  const Json& failures = plan.at("failures");
  EXPECT_NEAR(failures.at("mttf_s").get<double>(), 54.0 * 86400.0 / 419.0 * 16384.0 / 64.0, 1.0);
  for (const char* tier : {"memory", "disk"}) {
    EXPECT_GT(failures.at("interval_s").at(tier).get<double>(), 0.0);
  }
  const Json& effective = failures.at("effective");
  EXPECT_LE(effective.at("p05"), effective.at("mean"));
  EXPECT_LE(effective.at("mean"), effective.at("p95"));
  EXPECT_NEAR(effective.at("mean").get<double>(), failures.at("formula").get<double>(), 0.02);
  ASSERT_EQ(failures.at("by_cause").size(), 18u);
  const Json& first = failures.at("by_cause")[0];
  EXPECT_EQ(first.at("cause"), "Faulty GPU");
  EXPECT_DOUBLE_EQ(first.at("cost").get<double>(),
                   2.0 * 64.0 / 3600.0 * first.at("lost_s").get<double>());
  EXPECT_NEAR(plan.at("days_with_failures").get<double>(),
              plan.at("days").get<double>() / effective.at("mean").get<double>(), 1e-6);
  options.json = false;
  std::ostringstream text;
  CommandIo text_io{text, err};
  ASSERT_EQ(run_plan(options, text_io).value(), 0);
  EXPECT_NE(text.str().find("the source prints 30.1 % for Faulty GPU"), std::string::npos);
}

TEST(PlanCommand, RefusesFailuresThatItCannotForecast) {
  const auto refusal = [](const std::function<void(PlanOptions&)>& change) {
    PlanOptions options{.cluster = (kRoot / "clusters" / "dgx-h100.toml").string()};
    options.config.files = {(kRoot / "configs" / "tiny-gpt2.toml").string()};
    change(options);
    std::ostringstream out, err;
    CommandIo io{out, err};
    const Result<int> code = run_plan(options, io);
    EXPECT_FALSE(code.ok());
    return code.ok() ? "" : code.error().message;
  };
  EXPECT_NE(refusal([](PlanOptions& o) { o.advice.goodput.failures = "lama3"; }).find("llama3"),
            std::string::npos);
  EXPECT_NE(refusal([](PlanOptions& o) { o.advice.goodput.days = 3.0; }).find("--failures"),
            std::string::npos);
  EXPECT_NE(refusal([](PlanOptions& o) {
              o.advice.goodput = {.failures = "llama3", .days = -1.0};
            }).find("--days"),
            std::string::npos);
  EXPECT_NE(refusal([](PlanOptions& o) {
              o.advice.goodput.failures = "llama3";
              o.search = "";
            }).find("search first"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
