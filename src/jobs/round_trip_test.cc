#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/json_text.h"
#include "jobs/random_layout_fixture.h"

namespace trireme {
namespace {

constexpr int kLayouts = 1500;

// Reads the constants and dicts of a module as Python would, and returns what torchtitan's
// debug.save_config_file writes for it.
std::string saved_config_of(const std::string& module) {
  nlohmann::json saved, attention;
  std::istringstream lines(module);
  std::string line, section;
  const std::regex constant(R"(([A-Z_]+) = (.*))"), member(R"(    ([a-z_]+)=(.*),)");
  std::smatch found;
  const auto literal = [](std::string text) {
    if (text == "True" || text == "False") return nlohmann::json(text == "True");
    return parse_json(text);
  };
  nlohmann::json sizes;
  std::string policy;
  while (std::getline(lines, line) && !line.starts_with("ONES")) {
    if (std::regex_match(line, found, constant)) {
      section = found[2] == "dict(" ? found[1].str() : "";
      if (found[1] == "ACTIVATION_CHECKPOINT") {
        policy = found[2];
      } else if (section.empty()) {
        sizes[found[1].str()] = literal(found[2]);
      }
    } else if (!section.empty() && std::regex_match(line, found, member)) {
      const std::string name = section == "TRAINING" ? "training" : "parallelism";
      if (section != "ROPE") saved[name][found[1].str()] = literal(found[2]);
    }
  }
  auto& layers = saved["model_spec"]["model"]["layers"];
  for (int i = 0; i < sizes["N_LAYERS"]; ++i) {
    layers.push_back({{"attention",
                       {{"n_heads", sizes["N_HEADS"]},
                        {"n_kv_heads", sizes["N_KV_HEADS"]},
                        {"head_dim", sizes["HEAD_DIM"]},
                        {"qk_norm", nullptr}}},
                      {"feed_forward", {{"w1", {{"out_features", sizes["HIDDEN_DIM"]}}}}}});
  }
  saved["model_spec"]["model"]["dim"] = sizes["DIM"];
  saved["model_spec"]["model"]["vocab_size"] = sizes["VOCAB_SIZE"];
  saved["model_spec"]["model"]["enable_weight_tying"] = sizes["TIED_HEAD"];
  auto& checkpoint = saved["activation_checkpoint"];
  if (policy != "None") checkpoint["preserve_rng_state"] = true;
  if (policy.starts_with("Selective")) {
    checkpoint["force_recompute_mm_shapes_by_fqns"] = {"moe.router.gate"};
  }
  return json_text(saved, 1);
}

// What another trainer's job cannot say stands in RUN.toml; everything else is as if nobody had
// written it.
std::string base_without(const RunConfig& config, const std::set<std::string>& lost) {
  const std::vector<ConfigField> mine = config_fields(config);
  std::string text, section;
  for (const ConfigField& field : mine) {
    if (!lost.contains(field.key()) && !lost.contains(std::string(field.section))) continue;
    if (field.section != section) text += fmt::format("[{}]\n", field.section);
    section = field.section;
    text += fmt::format("{} = {}\n", field.name, toml_text(field));
  }
  return text;
}

// Writes each of many layouts and reads it back. Every one is either refused with a reason or the
// same afterwards.
void expect_round_trips(JobTrainer trainer, const std::string& path, KeyTable table,
                        const std::set<std::string>& from_base, int at_least) {
  RandomLayouts layouts(7);
  int num_written = 0;
  std::set<std::string> refused;
  for (int i = 0; i < kLayouts; ++i) {
    const RunConfig config = layouts.next();
    const Result<ExportedJob> exported =
        export_job({.trainer = trainer, .config = config, .path = path});
    if (!exported.ok()) {
      ASSERT_EQ(exported.error().kind, ErrorKind::Infeasible);
      ASSERT_NE(exported.error().message.find(title_of(trainer)), std::string::npos);
      refused.insert(exported.error().message.substr(0, exported.error().message.find(" = ")));
      continue;
    }
    ++num_written;
    std::string text = exported->files.front().text;
    if (path.ends_with(".py")) text = saved_config_of(text);
    const std::string base = base_without(config, from_base);
    ImportRequest request{.trainer = trainer, .text = text, .source = "job"};
    if (!base.empty()) {
      const auto loaded = load_config_text(base, "base.toml", {});
      // A degree of the base may not fit the defaults around it.
      request.base = loaded.ok() ? loaded->config : config;
      request.has_base = true;
    }
    const Result<ImportedJob> job = import_job(request);
    ASSERT_TRUE(job.ok()) << "layout " << i << ": " << job.error().message << "\n" << text;
    const Result<RunConfig> again = configuration_of(*job, base);
    ASSERT_TRUE(again.ok()) << "layout " << i << ": " << again.error().message << "\n" << text;
    ASSERT_EQ(differences(config, *again, table), "") << "layout " << i << "\n" << text;
  }
  ::testing::Test::RecordProperty("written", num_written);
  EXPECT_GE(num_written, at_least);
  EXPECT_GE(refused.size(), 4u);
}

TEST(RoundTrip, MegatronKeepsEveryLayout) {
  expect_round_trips(JobTrainer::Megatron, "job.sh", megatron_keys(), {}, 200);
}

TEST(RoundTrip, TorchtitanTomlKeepsEveryLayout) {
  expect_round_trips(JobTrainer::Torchtitan, "job.toml", torchtitan_keys(), {"model", "optim"}, 25);
}

TEST(RoundTrip, TorchtitanModuleKeepsEveryLayout) {
  std::set<std::string> lost = {"optim"};
  for (const char* key : {"norm_eps", "rope_theta", "rope_scaling_factor"}) {
    lost.insert(std::string("model.") + key);
  }
  lost.insert("model.family");
  lost.insert("model.bias");
  lost.insert("model.activation");
  lost.insert("model.norm");
  lost.insert("model.positions");
  expect_round_trips(JobTrainer::Torchtitan, "job.py", torchtitan_keys(), lost, 25);
}

TEST(RoundTrip, DeepspeedKeepsEveryLayout) {
  std::set<std::string> lost = {"model",
                                "optim",
                                "parallel.tp",
                                "parallel.pp",
                                "parallel.cp",
                                "parallel.ep",
                                "parallel.schedule",
                                "parallel.chunks",
                                "parallel.sequence",
                                "parallel.context",
                                "memory.recompute"};
  expect_round_trips(JobTrainer::Deepspeed, "job.json", deepspeed_keys(), lost, 60);
}

// Nothing of a configuration is lost in silence: each table says something of each key.
TEST(RoundTrip, EveryKeyHasOneRowInEveryTable) {
  const std::set<std::string_view> sections = {"model",    "batch",  "optim",
                                               "parallel", "memory", "precision"};
  const RunConfig config;
  for (const KeyTable table :
       {megatron_keys(), torchtitan_keys(), deepspeed_keys(), nanotron_keys(), accelerate_keys()}) {
    std::multiset<std::string> rows;
    for (const KeyPair& pair : table) rows.insert(std::string(pair.ours));
    size_t num_keys = 0;
    for (const ConfigField& field : config_fields(config)) {
      if (!sections.contains(field.section)) continue;
      ++num_keys;
      EXPECT_EQ(rows.count(field.key()), 1u) << field.key();
    }
    EXPECT_EQ(rows.size(), num_keys);
  }
}

}  // namespace
}  // namespace trireme
