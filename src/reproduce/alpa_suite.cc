#include "reproduce/alpa_suite.h"

#include "config/cluster_file.h"
#include "trireme_cluster_text.h"

namespace trireme {
namespace {

struct AlpaGpt {
  const char* name;
  int num_ranks;
  int64_t d_model, layers, heads;
};
constexpr AlpaGpt kGpt[] = {{"GPT 350M", 1, 1024, 24, 16},  {"GPT 760M", 2, 1536, 24, 16},
                            {"GPT 1.3B", 4, 2048, 24, 32},  {"GPT 2.6B", 8, 2560, 32, 32},
                            {"GPT 6.7B", 16, 4096, 32, 32}, {"GPT 15B", 32, 5120, 48, 40},
                            {"GPT 39B", 64, 8192, 48, 64}};

struct AlpaMoe {
  const char* name;
  int num_ranks;
  int64_t d_model, layers, experts;
};
constexpr AlpaMoe kMoe[] = {{"MoE 380M", 1, 768, 8, 8},    {"MoE 690M", 2, 768, 8, 16},
                            {"MoE 1.3B", 4, 768, 16, 16},  {"MoE 2.4B", 8, 1024, 16, 16},
                            {"MoE 10B", 16, 1536, 16, 32}, {"MoE 27B", 32, 2048, 16, 48},
                            {"MoE 70B", 64, 2048, 32, 64}};

struct AlpaNet {
  const char* name;
  int num_ranks;
  int64_t layers, base_channels, width_factor;
};
constexpr AlpaNet kNets[] = {{"WRN 250M", 1, 16, 160, 2}, {"WRN 500M", 2, 16, 224, 2},
                             {"WRN 1B", 4, 16, 320, 2},   {"WRN 2B", 8, 16, 448, 2},
                             {"WRN 4B", 16, 16, 640, 2},  {"WRN 6.8B", 32, 16, 320, 16},
                             {"WRN 13B", 64, 33, 320, 16}};

AlpaRun run_of(const char* name, int num_ranks) {
  AlpaRun run{.name = name, .num_ranks = num_ranks};
  run.config.model.seq_len = 1024;
  run.config.model.dropout = 0.0;
  run.config.batch.global_sequences = 1024;
  run.config.batch.micro_sequences = 1;
  run.config.parallel.dp = num_ranks;
  // The file of the device states its 16-bit peak under this name.
  run.config.precision.compute = ComputeChoice::Bf16;
  return run;
}

}  // namespace

std::vector<AlpaRun> alpa_runs() {
  std::vector<AlpaRun> runs;
  for (const AlpaGpt& gpt : kGpt) {
    runs.push_back(run_of(gpt.name, gpt.num_ranks));
    ModelConfig& model = runs.back().config.model;
    model.family = ModelFamily::Gpt2;
    model.layers = gpt.layers;
    model.d_model = gpt.d_model;
    model.heads = gpt.heads;
    model.vocab_size = 51200;
  }
  for (const AlpaMoe& moe : kMoe) {
    runs.push_back(run_of(moe.name, moe.num_ranks));
    ModelConfig& model = runs.back().config.model;
    model.family = ModelFamily::Moe;
    model.layers = moe.layers;
    model.d_model = moe.d_model;
    model.heads = 16;
    model.d_ff = 8 * moe.d_model / 3;
    model.vocab_size = 32000;
    model.experts = moe.experts;
    model.top_k = 2;
    // With fp32 gradients and weights, the state alone needs more memory than all devices have.
    const bool is_tight = moe.num_ranks == 64;
    if (is_tight) runs.back().config.optim.grad_dtype = StateChoice::Bf16;
    if (is_tight) runs.back().config.optim.master = false;
  }
  for (const AlpaNet& net : kNets) {
    runs.push_back(run_of(net.name, net.num_ranks));
    ModelConfig& model = runs.back().config.model;
    model.family = ModelFamily::WideResNet;
    model.layers = net.layers;
    model.base_channels = net.base_channels;
    model.width_factor = net.width_factor;
    model.widen_first_conv = false;
    model.image_size = 224;
    model.vocab_size = 1024;
    model.seq_len = 1;
    runs.back().config.data.source = DataSource::Synthetic;
    runs.back().config.batch.global_sequences = 1536;
    runs.back().config.precision.compute = ComputeChoice::Fp32;
  }
  return runs;
}

Hardware v100_p3() {
  return parse_hardware(embedded::kV100P316xlargeToml, "clusters/v100-p3.16xlarge.toml").value();
}

}  // namespace trireme
