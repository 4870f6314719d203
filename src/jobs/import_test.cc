#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "jobs/random_layout_fixture.h"
#include "jobs/torchtitan_words.h"
#include "schema/mesh.h"

namespace trireme {
namespace {

const std::filesystem::path kModels =
    std::filesystem::path(__FILE__).parent_path() / ".." / ".." / "models";

constexpr std::string_view kScript = R"(#!/bin/bash
# Trains a GPT with 1.3 billion parameters.
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-4}
TP=4; PP=2
MODEL_ARGS=(
    --num-layers 24 --hidden-size 2048
    --num-attention-heads 16
    --seq-length=2048 --max-position-embeddings 2048
    --vocab-size 50257
)
python3 prepare.py --corpus "$1"
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    --micro-batch-size 2 --global-batch-size $((NNODES * 32)) \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} \
    --num-layers-per-virtual-pipeline-stage 4 \
    --use-distributed-optimizer --sequence-parallel --bf16 \
    --log-interval 10
)";

Result<ImportedJob> imported(JobTrainer trainer, std::string_view text,
                             const std::string& base = "") {
  ImportRequest request{.trainer = trainer, .text = text, .source = "job"};
  if (!base.empty()) {
    request.base = load_config_text(base, "base.toml", {}).value().config;
    request.has_base = true;
  }
  return import_job(request);
}

TEST(ImportMegatron, ReadsALaunchScript) {
  const ImportedJob job = imported(JobTrainer::Megatron, kScript).value();
  const RunConfig config = configuration_of(job).value();
  EXPECT_EQ(config.model.layers, 24);
  EXPECT_EQ(config.model.d_ff, 4 * 2048);
  EXPECT_EQ(config.model.vocab_size, 50688);  // a multiple of 128 * tp
  EXPECT_EQ(config.model.family, ModelFamily::Gpt2);
  EXPECT_EQ(config.model.dropout, 0.1);  // their default
  EXPECT_EQ(config.batch.global_sequences, 128);
  EXPECT_EQ(config.parallel.tp, 4);
  EXPECT_EQ(config.parallel.pp, 2);
  EXPECT_EQ(config.parallel.dp, 4);
  EXPECT_EQ(config.parallel.schedule, ScheduleKind::Interleaved);
  EXPECT_EQ(config.parallel.chunks, 3);
  EXPECT_EQ(config.parallel.zero, 1);
  EXPECT_TRUE(config.parallel.sequence);
  EXPECT_EQ(config.precision.compute, ComputeChoice::Bf16);
  EXPECT_EQ(job.not_used, std::vector<std::string>{"job:19: --log-interval 10"});
}

// A rule of ours that the job breaks names the line of the job.
TEST(ImportMegatron, RulesNameTheLineOfTheJob) {
  std::string script(kScript);
  script.replace(script.find("heads 16"), 8, "heads 15");
  const Result<RunConfig> config = configuration_of(imported(JobTrainer::Megatron, script).value());
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().kind, ErrorKind::Usage);
  EXPECT_NE(config.error().message.find("job:8: --num-attention-heads 15: model.heads = 15 must"),
            std::string::npos)
      << config.error().message;
}

TEST(ImportMegatron, ReadsArguments) {
  const std::vector<std::string> words = {"--num-layers",
                                          "4",
                                          "--hidden-size=64",
                                          "--num-attention-heads",
                                          "4",
                                          "--seq-length",
                                          "64",
                                          "--vocab-size",
                                          "99",
                                          "--micro-batch-size",
                                          "1",
                                          "--swiglu"};
  const ImportedJob job =
      import_arguments(words, {.trainer = JobTrainer::Megatron, .source = "argument"}).value();
  const RunConfig config = configuration_of(job).value();
  EXPECT_EQ(config.model.vocab_size, 128);
  EXPECT_EQ(config.model.d_ff, 128);  // two thirds of 256, down to a multiple of 64
  const std::vector<std::string> wrong = {"--num-layers", "four"};
  const auto refused =
      import_arguments(wrong, {.trainer = JobTrainer::Megatron, .source = "argument"});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("argument: --hidden-size: is missing"), std::string::npos);
}

struct BadJob {
  JobTrainer trainer;
  std::string text;
  ErrorKind kind;
  std::vector<std::string> says;
  std::string base = "";
};

// Each error names the place, their setting and a remedy.
TEST(Import, RefusesWithPlaceReasonAndRemedy) {
  const std::string model = "[model]\nvocab_size = 256\n";
  const std::string batch = "[training]\nlocal_batch_size = 1\nseq_len = 64\n";
  const std::vector<BadJob> jobs = {
      {JobTrainer::Megatron,
       "--num-layers 2 --fp8-format hybrid",
       ErrorKind::Usage,
       {"job:1: --fp8-format hybrid", "fp8", "--bf16"}},
      {JobTrainer::Megatron, "--yaml-cfg a.yaml", ErrorKind::Usage, {"job:1: --yaml-cfg a.yaml"}},
      {JobTrainer::Megatron, "echo hello", ErrorKind::Usage, {"job", "--num-layers"}},
      {JobTrainer::Megatron, "run '", ErrorKind::Usage, {"job:1", "not closed"}},
      {JobTrainer::Megatron,
       "--num-layers 2\n--tensor-model-parallel-size $TP",
       ErrorKind::Usage,
       {"job:2: --tensor-model-parallel-size $TP", "integer"}},
      {JobTrainer::Torchtitan, "[model\n", ErrorKind::Usage, {"job:1"}},
      {JobTrainer::Torchtitan,
       "[model]\nname = \"llama3\"\nflavor = \"7B\"\n" + batch,
       ErrorKind::Usage,
       {"job:3: model.flavor 7B", "RUN.toml"}},
      {JobTrainer::Torchtitan,
       batch + "[parallelism]\ndata_parallel_shard_degree = 1\npipeline_parallel_degree = 2\n"
               "pipeline_parallel_schedule = \"Mine\"",
       ErrorKind::Infeasible,
       {"job:7: parallelism.pipeline_parallel_schedule Mine", "1F1B"},
       model},
      {JobTrainer::Torchtitan,
       batch + "[parallelism]\ntensor_parallel_degree = 2\n",
       ErrorKind::Usage,
       {"parallelism.data_parallel_shard_degree", "--ranks"},
       model},
      {JobTrainer::Deepspeed, "{\n\"train_batch_size\": 8,\n}", ErrorKind::Usage, {"job:3"}, model},
      {JobTrainer::Deepspeed, "{\"train_batch_size\": 8}", ErrorKind::Usage, {"RUN.toml"}},
      {JobTrainer::Deepspeed,
       "{\n\"train_batch_size\": \"auto\"}",
       ErrorKind::Usage,
       {"job:2: train_batch_size auto", "number"},
       model},
      {JobTrainer::Deepspeed,
       "{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 3,\n"
       "\"gradient_accumulation_steps\": 1}",
       ErrorKind::Usage,
       {"job:1: train_batch_size 8", "multiple"},
       model},
      {JobTrainer::Deepspeed, "[]", ErrorKind::Usage, {"job:1"}, model},
      {JobTrainer::Nanotron, "", ErrorKind::Usage, {"nanotron", "Megatron-LM"}},
  };
  for (const BadJob& bad : jobs) {
    const Result<ImportedJob> job = imported(bad.trainer, bad.text, bad.base);
    ASSERT_FALSE(job.ok()) << bad.text;
    EXPECT_EQ(job.error().kind, bad.kind) << job.error().message;
    for (const std::string& word : bad.says) {
      EXPECT_NE(job.error().message.find(word), std::string::npos)
          << word << " in " << job.error().message;
    }
  }
}

// The layers with experts as Megatron-LM lets users write them, and what we do not have.
TEST(ImportMegatron, ReadsWhichLayersHaveExperts) {
  const std::string job_without =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 256 "
      "--micro-batch-size 1 --global-batch-size 8 --swiglu --normalization RMSNorm "
      "--disable-bias-linear --position-embedding-type rope --num-experts 4 "
      "--ffn-hidden-size 192 --moe-ffn-hidden-size 64 --moe-layer-freq ";
  for (const std::string pattern : {"'([0]*1+[1]*3)'", "[0,1,1,1]", "'[0] + ([1]+[1]) + [1]'"}) {
    const auto job = imported(JobTrainer::Megatron, job_without + pattern);
    ASSERT_TRUE(job.ok()) << job.error().message;
    const RunConfig config = configuration_of(*job).value();
    EXPECT_EQ(config.model.dense_layers, 1) << pattern;
    EXPECT_EQ(config.model.dense_d_ff, 192) << pattern;
    EXPECT_EQ(config.model.d_ff, 64) << pattern;
  }
  for (const std::string pattern : {"1", "[1]*4"}) {
    const auto job = imported(JobTrainer::Megatron, job_without + pattern);
    ASSERT_TRUE(job.ok()) << job.error().message;
    EXPECT_EQ(configuration_of(*job).value().model.dense_layers, 0) << pattern;
  }
  for (const std::string pattern : {"2", "[0]*4", "[1,0,1,1]", "[0,1,1]", "'[0]*1+[1]*9999999999'",
                                    "'([0]+[1]*3'", "[0]*x", "[2,1,1,1]", "'[0]*-1+[1]*4'"}) {
    const auto job = imported(JobTrainer::Megatron, job_without + pattern);
    ASSERT_FALSE(job.ok()) << pattern;
    EXPECT_EQ(job.error().kind, ErrorKind::Infeasible) << job.error().message;
    EXPECT_NE(job.error().message.find("job:1: --moe-layer-freq"), std::string::npos)
        << job.error().message;
  }
}

// A whole job with one setting that we do not have is Infeasible; the rest of it is understood.
TEST(ImportMegatron, RefusesWhatChangesTheLayout) {
  for (const std::string setting :
       {"--fp8-format hybrid", "--position-embedding-type rope --rope-type yarn",
        "--window-size \"(4,4)\"", "--tensor-parallel-num-weight-shards 2",
        "--hybrid-layer-pattern M-M", "--moe-layer-freq [1,0]",
        "--recompute-granularity full --recompute-num-layers 2", "--qk-layernorm",
        "--some-new-parallel-size 2",
        "--position-embedding-type rope --multi-latent-attention --rotary-scaling-factor 40"}) {
    std::string script(kScript);
    script.insert(script.find(" --bf16"), " " + setting);
    const Result<ImportedJob> job = imported(JobTrainer::Megatron, script);
    ASSERT_FALSE(job.ok()) << setting;
    EXPECT_EQ(job.error().kind, ErrorKind::Infeasible) << setting;
    EXPECT_NE(job.error().message.find("job:18: --"), std::string::npos) << job.error().message;
  }
}

// The stages are those of the job, which are equal unless it says otherwise.
TEST(ImportMegatron, ReadsTheStages) {
  const std::string of_chunks = "--num-layers-per-virtual-pipeline-stage 4";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "12,12"},
      {of_chunks, "4,4,4,4,4,4"},
      {"--decoder-first-pipeline-num-layers 10", "10,14"},
      {"--decoder-last-pipeline-num-layers 11", "13,11"},
      {"--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", "12,12"},
      {"--pipeline-model-parallel-layout \"Et*5|(t*7|)*2,t*5L\"", "5,7,7,5"},
  };
  for (const auto& [setting, stages] : cases) {
    std::string script(kScript);
    script.replace(script.find(of_chunks), of_chunks.size(), setting);
    const auto job = imported(JobTrainer::Megatron, script);
    ASSERT_TRUE(job.ok()) << job.error().message;
    EXPECT_EQ(configuration_of(*job).value().parallel.stage_layers, stages) << setting;
  }
  for (const std::string setting : {"--decoder-first-pipeline-num-layers 30",
                                    "--pipeline-model-parallel-layout \"Et*24|t*oops\"",
                                    "--pipeline-model-parallel-layout Et*8|t*8|t*8L"}) {
    std::string script(kScript);
    script.replace(script.find(of_chunks), of_chunks.size(), setting);
    const auto job = imported(JobTrainer::Megatron, script);
    ASSERT_FALSE(job.ok()) << setting;
    EXPECT_EQ(job.error().kind, ErrorKind::Usage) << setting;
    EXPECT_NE(job.error().message.find("job:17: --"), std::string::npos) << job.error().message;
  }
}

// The flags by which Megatron-LM trains DeepSeek-V3. The result is the model of models/.
TEST(ImportMegatron, ReadsLatentAttentionAndFurtherTokens) {
  constexpr std::string_view kDeepseek = R"job(
    --num-layers 61 --hidden-size 7168 --num-attention-heads 128 --kv-channels 128
    --seq-length 4096 --max-position-embeddings 4096 --vocab-size 129280
    --make-vocab-size-divisible-by 1280 --untie-embeddings-and-output-weights
    --normalization RMSNorm --norm-epsilon 1e-6 --swiglu --disable-bias-linear
    --attention-dropout 0.0 --hidden-dropout 0.0
    --multi-latent-attention --qk-layernorm --q-lora-rank 1536 --kv-lora-rank 512
    --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128
    --position-embedding-type rope --rotary-base 10000 --rotary-scaling-factor 40
    --mscale 1.0 --mscale-all-dim 1.0
    --ffn-hidden-size 18432 --num-experts 256 --moe-ffn-hidden-size 2048
    --moe-layer-freq "([0]*3+[1]*58)" --moe-shared-expert-intermediate-size 2048
    --moe-router-topk 8 --moe-router-num-groups 8 --moe-router-group-topk 4
    --moe-router-topk-scaling-factor 2.5 --moe-router-score-function sigmoid
    --moe-router-enable-expert-bias --moe-router-bias-update-rate 1e-3
    --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 1e-4
    --mtp-num-layers 1 --mtp-loss-scaling-factor 0.3
    --micro-batch-size 1 --global-batch-size 2048 --bf16)job";
  const auto job = imported(JobTrainer::Megatron, kDeepseek);
  ASSERT_TRUE(job.ok()) << job.error().message;
  const RunConfig read = configuration_of(*job).value();
  const RunConfig ours =
      load_config({.files = {(kModels / "deepseek-v3.toml").string()}}).value().config;
  const RunConfig wanted = spelled_out(ours), got = spelled_out(read);
  const std::vector<ConfigField> a = config_fields(wanted), b = config_fields(got);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].section != "model" || a[i].name == "preset") continue;
    EXPECT_EQ(toml_text(b[i]), toml_text(a[i])) << a[i].key();
  }
}

TEST(ImportMegatron, ReadsNormsAndWindowsOfAttention) {
  std::string script(kScript);
  script.insert(script.find(" --bf16"),
                " --qk-layernorm --normalization RMSNorm --disable-bias-linear "
                "--window-size \"(127,0)\"");
  const RunConfig config = configuration_of(imported(JobTrainer::Megatron, script).value()).value();
  EXPECT_TRUE(config.model.qk_norm);
  EXPECT_EQ(config.model.window, 128);
}

// The export names the flavor, so the job is read without a RUN.toml. Other sizes have no flavor.
TEST(ImportTorchtitan, ReadsTheExportOfEveryReleasedLlama) {
  for (const TorchtitanFlavor& flavor : kTorchtitanFlavors) {
    RunConfig config =
        load_config({.files = {(kModels / flavor.preset).string() + ".toml"},
                     .overrides = {"batch.global_sequences=8", "batch.micro_sequences=1",
                                   "parallel.dp=8", "parallel.zero=3", "model.seq_len=4096"}})
            .value()
            .config;
    const auto text_of = [&] {
      return export_job({.trainer = JobTrainer::Torchtitan, .config = config, .path = "job.toml"})
          .value()
          .files[0]
          .text;
    };
    const ImportedJob job = imported(JobTrainer::Torchtitan, text_of()).value();
    const LoadedConfig again =
        load_config({.model_folders = {kModels.string()}, .imported = job.assignments}).value();
    EXPECT_EQ(differences(config, again.config, torchtitan_keys()), "");
    config.model.d_ff += 256;
    EXPECT_NE(text_of().find("flavor = \"trireme\""), std::string::npos);
  }
}

TEST(ImportTorchtitan, KnowsTheReleasedLlamas) {
  const ImportedJob job =
      imported(JobTrainer::Torchtitan,
               "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n"
               "seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = 8\n")
          .value();
  const auto preset = std::find_if(job.assignments.begin(), job.assignments.end(),
                                   [](const auto& one) { return one.key == "model.preset"; });
  ASSERT_NE(preset, job.assignments.end());
  EXPECT_EQ(preset->text, "\"llama3-8b\"");
}

// Two of DeepSpeed's three batch sizes give the third.
TEST(ImportDeepspeed, DerivesTheMissingBatchSize) {
  const std::string base = "[model]\nvocab_size = 256\n[parallel]\ndp = 4\n";
  for (const char* text :
       {"{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 2}",
        "{\"train_batch_size\": 24, \"gradient_accumulation_steps\": 3}",
        "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 3}",
        "{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 2,"
        "\"gradient_accumulation_steps\": 3}"}) {
    const RunConfig config =
        configuration_of(imported(JobTrainer::Deepspeed, text, base).value(), base).value();
    EXPECT_EQ(config.parallel.dp, 4) << text;
    EXPECT_EQ(config.batch.global_sequences, 24) << text;
    EXPECT_EQ(config.batch.micro_sequences, 2) << text;
  }
}

// The job with --set over it, as `trireme plan` lays them: the sets reach the reader and lie above
// what it says.
Result<RunConfig> with_sets(JobTrainer trainer, std::string_view text,
                            const std::vector<std::string>& sets, std::optional<int> ranks = {},
                            const std::string& base = "") {
  ImportRequest request{.trainer = trainer, .text = text, .source = "job", .ranks = ranks};
  const Result<LoadedConfig> file = load_config_text(base, "base.toml", {});
  if (!base.empty()) {
    const ParallelConfig& degrees = file.value().config.parallel;
    request.base_ranks_per_copy = int64_t{degrees.tp} * degrees.pp * degrees.cp;
    const Result<LoadedConfig> both = load_config_text(base, "base.toml", {}, sets);
    request.base = both.ok() ? both->config : file->config;
    request.has_base = true;
  }
  for (const std::string& set : sets) request.overrides.push_back(parse_override(set).value());
  TRIREME_TRY(job, import_job(request));
  ConfigRequest laid{.overrides = sets, .ranks = ranks};
  if (!base.empty()) laid.imported = parse_config_text(base, "base.toml").value();
  laid.imported.insert(laid.imported.end(), job.assignments.begin(), job.assignments.end());
  laid.imported_from = job.source;
  TRIREME_TRY(loaded, load_config(laid));
  return loaded.config;
}

// A degree of --set is worth the same as an edited script: the ranks of the job stay, and all that
// follows from the degree changes.
TEST(ImportMegatron, ADegreeOfSetIsAnEditOfTheScript) {
  const std::string of_chunks = " --num-layers-per-virtual-pipeline-stage 4";
  std::string plain(kScript);
  plain.erase(plain.find(of_chunks), of_chunks.size());
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string script = plain;
    script.replace(script.find(from), from.size(), to);
    return to_toml(configuration_of(imported(JobTrainer::Megatron, script).value()).value());
  };
  const auto set = [&](const std::vector<std::string>& sets) {
    return to_toml(with_sets(JobTrainer::Megatron, plain, sets).value());
  };
  for (const std::string tp : {"1", "2", "4", "8"}) {
    EXPECT_EQ(set({"parallel.tp=" + tp}), edited("TP=4", "TP=" + tp)) << tp;
  }
  for (const std::string pp : {"1", "4"}) {
    EXPECT_EQ(set({"parallel.pp=" + pp}), edited("PP=2", "PP=" + pp)) << pp;
  }
  EXPECT_EQ(set({"model.layers=48"}), edited("--num-layers 24", "--num-layers 48"));
  const RunConfig halved = with_sets(JobTrainer::Megatron, kScript, {"parallel.tp=2"}).value();
  EXPECT_EQ(num_ranks(halved.parallel), 32);
  EXPECT_EQ(halved.parallel.dp, 8);
  EXPECT_EQ(halved.model.vocab_size, 50432);
  // --ranks and dp are the user's own.
  EXPECT_EQ(with_sets(JobTrainer::Megatron, kScript, {"parallel.tp=2"}, 16)->parallel.dp, 4);
  EXPECT_EQ(with_sets(JobTrainer::Megatron, kScript, {}, 64)->parallel.dp, 8);
  EXPECT_EQ(with_sets(JobTrainer::Megatron, kScript, {"parallel.dp=2"})->parallel.dp, 2);
  const auto uneven = with_sets(JobTrainer::Megatron, kScript, {"parallel.cp=3"});
  ASSERT_FALSE(uneven.ok());
  EXPECT_NE(uneven.error().message.find("must divide the 32 ranks"), std::string::npos)
      << uneven.error().message;
  const auto odd = with_sets(JobTrainer::Megatron, kScript, {}, 12);
  ASSERT_FALSE(odd.ok());
  EXPECT_NE(odd.error().message.find("--ranks 12: must be a multiple of"), std::string::npos)
      << odd.error().message;
}

TEST(ImportTorchtitan, ADegreeOfSetKeepsTheRanks) {
  const std::string model = "[model]\nvocab_size = 256\n";
  const auto job_of = [](const std::string& degrees) {
    return "[training]\nlocal_batch_size = 1\nseq_len = 64\n[parallelism]\n" + degrees;
  };
  const std::string sharded =
      job_of("data_parallel_shard_degree = 8\ntensor_parallel_degree = 2\n");
  const auto dp_of = [&](const std::string& text, const std::vector<std::string>& sets,
                         std::optional<int> ranks = {}) {
    const auto config = with_sets(JobTrainer::Torchtitan, text, sets, ranks, model);
    EXPECT_TRUE(config.ok()) << config.error().message;
    return config.ok() ? config->parallel.dp : 0;
  };
  EXPECT_EQ(dp_of(sharded, {}), 8);
  EXPECT_EQ(dp_of(sharded, {"parallel.tp=4"}), 4);
  EXPECT_EQ(dp_of(sharded, {"parallel.tp=1"}), 16);
  EXPECT_EQ(dp_of(sharded, {}, 32), 16);
  EXPECT_EQ(dp_of(sharded, {"parallel.dp=3"}), 3);
  const std::string replicated =
      job_of("data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\n");
  EXPECT_EQ(dp_of(replicated, {"parallel.tp=2"}), 4);
  EXPECT_FALSE(with_sets(JobTrainer::Torchtitan, replicated, {"parallel.tp=8"}, {}, model).ok());
}

TEST(ImportDeepspeed, ADegreeOfSetKeepsTheRanks) {
  const std::string base = "[model]\nvocab_size = 256\n[parallel]\ntp = 2\n";
  const std::string job =
      "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 1,"
      "\"gradient_accumulation_steps\": 4}";  // dp 8, so 16 ranks
  const auto parallel = [&](const std::vector<std::string>& sets, std::optional<int> ranks = {}) {
    const auto config = with_sets(JobTrainer::Deepspeed, job, sets, ranks, base);
    EXPECT_TRUE(config.ok()) << config.error().message;
    return config.ok() ? config->parallel : ParallelConfig{};
  };
  EXPECT_EQ(parallel({}).dp, 8);
  EXPECT_EQ(parallel({"parallel.tp=4"}).dp, 4);
  EXPECT_EQ(parallel({"parallel.tp=1"}).dp, 16);
  EXPECT_EQ(parallel({}, 8).dp, 4);
  EXPECT_EQ(parallel({"parallel.dp=2"}).dp, 2);
  EXPECT_FALSE(with_sets(JobTrainer::Deepspeed, job, {"parallel.cp=3"}, {}, base).ok());
}

// A misspelt setting would be priced with its default. It is refused with the name that was meant;
// what may be a setting is told apart from what is known to change nothing.
TEST(Import, AMisspeltSettingIsRefusedAndAnUnknownOneIsTold) {
  const std::string model = "[model]\nvocab_size = 256\n";
  const std::string batch = "[training]\nlocal_batch_size = 1\nseq_len = 64\n";
  struct Misspelt {
    JobTrainer trainer;
    std::string text, written, meant, base;
  };
  std::string script(kScript);
  script.replace(script.find("parallel-size $TP"), 13, "parallel-sise");
  std::string layers(kScript);
  layers.insert(layers.find(" --bf16"), " --seq-lenght 4096");
  for (const auto& [trainer, text, written, meant, base] : std::vector<Misspelt>{
           {JobTrainer::Megatron, script, "--tensor-model-parallel-sise 4",
            "--tensor-model-parallel-size", ""},
           {JobTrainer::Megatron, layers, "--seq-lenght 4096", "--seq-length", ""},
           {JobTrainer::Deepspeed,
            "{\"train_micro_batch_size_per_gpu\": 1, \"zero_optimisation\": {\"stage\": 3}}",
            "zero_optimisation.stage 3", "zero_optimization.stage", model},
           {JobTrainer::Torchtitan,
            batch + "lokal_batch_size = 2\n[parallelism]\n"
                    "data_parallel_shard_degree = 2\n",
            "training.lokal_batch_size 2", "training.local_batch_size", model}}) {
    const auto job = imported(trainer, text, base);
    ASSERT_FALSE(job.ok()) << written;
    EXPECT_EQ(job.error().kind, ErrorKind::Usage);
    EXPECT_NE(job.error().message.find(written + ": "), std::string::npos) << job.error().message;
    EXPECT_NE(job.error().message.find("did you mean " + meant + "?"), std::string::npos)
        << job.error().message;
  }
  std::string odd(kScript);
  odd.insert(odd.find(" --bf16"), " --foo-bar 3 --save-interval 10 --lr-decay-iters 320000");
  const ImportedJob job = imported(JobTrainer::Megatron, odd).value();
  EXPECT_EQ(job.not_known, std::vector<std::string>{"job:18: --foo-bar 3"});
  EXPECT_EQ(job.not_used.size(), 3u);
  const ImportedJob deepspeed =
      imported(JobTrainer::Deepspeed,
               "{\"train_micro_batch_size_per_gpu\": 1, \"steps_per_print\": 5, \"mine\": 1,\n"
               "\"zero_optimization\": {\"stage\": 2, \"overlap_comm\": true},\n"
               "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-4}}}",
               model)
          .value();
  EXPECT_EQ(deepspeed.not_known, std::vector<std::string>{"job:1: mine 1"});
  EXPECT_EQ(deepspeed.not_used.size(), 4u);
}

}  // namespace
}  // namespace trireme
