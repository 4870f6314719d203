#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "jobs/random_layout_fixture.h"

namespace trireme {
namespace {

const std::filesystem::path kHere = std::filesystem::path(__FILE__).parent_path();

struct GoldenJob {
  JobTrainer trainer;
  std::string file;
  std::string configuration;
  std::vector<std::string> overrides;
  std::vector<int64_t> stage_layers = {};
};

// A change of these files is a change of what other trainers read. Hold it against their parsers
// (docs/exports.md) before you change a file here.
TEST(ExportGolden, FilesAreAsTheyWere) {
  const std::vector<std::string> pipeline = {"parallel.pp=2", "parallel.dp=2", "parallel.zero=1",
                                             "precision.compute=bf16"};
  const std::vector<std::string> sharded = {"parallel.pp=2", "parallel.dp=2", "parallel.zero=3",
                                            "memory.recompute=full", "precision.compute=bf16"};
  const std::vector<GoldenJob> jobs = {
      {JobTrainer::Megatron,
       "megatron.sh",
       "tiny-moe",
       {"parallel.pp=2", "parallel.dp=2", "parallel.zero=1", "precision.compute=bf16",
        "parallel.tp=2", "parallel.sequence=true", "parallel.schedule=interleaved"}},
      {JobTrainer::Torchtitan, "torchtitan.py", "tiny-llama", sharded, {2, 2}},
      {JobTrainer::Torchtitan, "torchtitan.toml", "tiny-llama", sharded, {2, 2}},
      {JobTrainer::Deepspeed, "ds_config.json", "tiny-llama", pipeline},
      {JobTrainer::Nanotron,
       "nanotron.yaml",
       "tiny-llama",
       {"parallel.pp=2", "parallel.dp=2", "parallel.zero=1", "precision.compute=bf16",
        "parallel.tp=2", "parallel.sequence=true"}},
      {JobTrainer::Accelerate,
       "accelerate.yaml",
       "tiny-llama",
       {"parallel.dp=4", "parallel.tp=2", "parallel.zero=3", "parallel.hsdp_shard=2"}},
  };
  for (const GoldenJob& golden : jobs) {
    const std::string path =
        (kHere / ".." / ".." / "configs" / (golden.configuration + ".toml")).string();
    const LoadedConfig loaded =
        load_config({.files = {path}, .overrides = golden.overrides}).value();
    const ExportedJob job = export_job({.trainer = golden.trainer,
                                        .config = loaded.config,
                                        .stage_layers = golden.stage_layers,
                                        .path = (kHere / "golden" / golden.file).string()})
                                .value();
    for (const ExportedFile& file : job.files) {
      EXPECT_EQ(read_text_file(file.path).value(), file.text) << file.path;
    }
  }
}

// Stages of unequal length are written out for Megatron-LM, and are the same when they are read.
// The last one may have the head alone.
TEST(Export, WritesUnevenStages) {
  RunConfig config;
  config.model.layers = 32;
  config.model.vocab_size = 256;
  config.parallel.pp = 4;
  config.batch.micro_sequences = 1;
  config.batch.global_sequences = 8;
  const std::pair<std::vector<int64_t>, const char*> layouts[] = {
      {{7, 9, 9, 7}, "'Et*7|t*9|t*9|t*7L'"}, {{11, 11, 10, 0}, "'Et*11|t*11|t*10|L'"}};
  for (const auto& [stage_layers, layout] : layouts) {
    const ExportedJob job = export_job({.trainer = JobTrainer::Megatron,
                                        .config = config,
                                        .stage_layers = stage_layers,
                                        .path = "job.sh"})
                                .value();
    const std::string& text = job.files.front().text;
    EXPECT_NE(text.find(std::string("--pipeline-model-parallel-layout ") + layout),
              std::string::npos);
    const ImportedJob read =
        import_job({.trainer = JobTrainer::Megatron, .text = text, .source = "job.sh"}).value();
    const RunConfig again = configuration_of(read).value();
    EXPECT_EQ(again.parallel.pp, 4);
    EXPECT_EQ(again.parallel.chunks, 1);
    EXPECT_EQ(again.parallel.stage_layers, fmt::format("{}", fmt::join(stage_layers, ",")));
  }
}

// The page of the exports has every key of the tables.
TEST(Export, EveryKeyIsOnThePage) {
  const std::string page =
      read_text_file((kHere / ".." / ".." / "docs" / "exports.md").string()).value();
  for (const KeyTable table :
       {megatron_keys(), torchtitan_keys(), deepspeed_keys(), nanotron_keys(), accelerate_keys()}) {
    for (const KeyPair& pair : table) {
      std::istringstream words{std::string(pair.theirs)};
      for (std::string word; words >> word;) {
        EXPECT_NE(page.find("`" + word + "`"), std::string::npos) << word;
      }
      if (pair.say == Say::Only) {
        EXPECT_NE(page.find(pair.why), std::string::npos) << pair.why;
      }
    }
  }
}

// Every refusal names our key, its value, the trainer and a remedy.
TEST(Export, RefusesWhatATrainerCannotExpress) {
  struct Refused {
    JobTrainer trainer;
    std::string override_text;
    std::string says;
  };
  const std::vector<Refused> all = {
      {JobTrainer::Megatron, "parallel.schedule=\"zb_h1\"", "parallel.schedule = \"zb_h1\""},
      {JobTrainer::Megatron, "memory.offload=\"all\"", "memory.offload = \"all\""},
      {JobTrainer::Megatron, R"(parallel.layers=[{match = "mlp.*", strategy = "data"}])",
       R"(parallel.layers = [{match = "mlp.*", strategy = "data"}])"},
      {JobTrainer::Megatron, "model.parallel_block=true", "model.parallel_block = true"},
      {JobTrainer::Megatron, "model.rope_theta=10000.5", "model.rope_theta = 10000.5"},
      {JobTrainer::Torchtitan, "parallel.zero=1", "parallel.zero = 1"},
      {JobTrainer::Torchtitan, "precision.compute=\"fp16\"", "precision.compute = \"fp16\""},
      {JobTrainer::Deepspeed, "memory.recompute=\"selective\"", "memory.recompute = \"selective\""},
      {JobTrainer::Deepspeed, "parallel.hsdp_shard=2", "parallel.hsdp_shard = 2"},
      {JobTrainer::Nanotron, "parallel.zero=2", "parallel.zero = 2"},
      {JobTrainer::Nanotron, "memory.offload=\"optimizer\"", "memory.offload = \"optimizer\""},
      {JobTrainer::Nanotron, "optim.frozen=\"layers.*\"", "optim.frozen = \"layers.*\""},
      {JobTrainer::Accelerate, "parallel.zero=1", "parallel.zero = 1"},
      {JobTrainer::Accelerate, "parallel.pp=2", "parallel.pp = 2"},
      {JobTrainer::Accelerate, "model.lora_rank=4", "model.lora_rank = 4"},
      {JobTrainer::Accelerate, "optim.frozen=\"layers.*\"", "optim.frozen = \"layers.*\""},
      {JobTrainer::Accelerate, "optim.name=\"muon\"", "optim.name = \"muon\""},
  };
  for (const Refused& refused : all) {
    const std::string path = (kHere / ".." / ".." / "configs" / "tiny-llama.toml").string();
    std::vector<std::string> overrides = {"parallel.dp=4", refused.override_text};
    if (refused.override_text.find("zero") == std::string::npos) {
      overrides.push_back(refused.trainer == JobTrainer::Accelerate ? "parallel.zero=3"
                                                                    : "parallel.zero=1");
    }
    const LoadedConfig loaded = load_config({.files = {path}, .overrides = overrides}).value();
    const auto job = export_job({.trainer = refused.trainer, .config = loaded.config});
    ASSERT_FALSE(job.ok()) << refused.override_text;
    EXPECT_EQ(job.error().kind, ErrorKind::Infeasible);
    const std::string start =
        refused.says + " cannot be written for " + std::string(title_of(refused.trainer)) + ": ";
    const size_t at = job.error().message.find(start);
    ASSERT_NE(at, std::string::npos) << job.error().message;
    EXPECT_NE(job.error().message.find("; ", at), std::string::npos) << job.error().message;
  }
}

}  // namespace
}  // namespace trireme
