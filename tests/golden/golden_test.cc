// Compares small models with what PyTorch computes in double (make_golden.py): logits, losses,
// every gradient, and the weights after three clipped AdamW steps, for every kernel table.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "comm/local/sole_rank.h"
#include "compile/compile_rank.h"
#include "kernels/kernel_table.h"
#include "models/decoder.h"
#include "planner/make_plan.h"
#include "train/engine.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr int64_t kVocab = 61, kSeqLen = 16, kSequences = 3;
constexpr double kLearningRates[] = {0.004, 0.002, 0.001};
constexpr std::pair<int64_t, int64_t> kLogitPositions[] = {{0, 0}, {1, 7}, {2, 15}};

// Tolerances. fp32: sums of a few hundred terms have another order than in double, and fast exp and
// tanh are polynomials; AdamW divides by a small root, so updates have fewer correct digits. bf16:
// every tensor between layers is rounded to 8 bits, about a dozen times in a row.
struct Tolerance {
  double loss;    // relative
  double logit;   // relative to the largest logit
  double grad;    // relative to the root mean square of the tensor; projections: to its norm
  double weight;  // absolute, times the sum of the learning rates
};
constexpr Tolerance kFp32 = {5e-7, 3e-6, 5e-6, 1e-3};
constexpr Tolerance kBf16 = {1e-2, 3e-2, 1e-1, 1.0};

// --- The closed form of make_golden.py -----------------------------------------------------------

uint32_t fnv1a(std::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

uint32_t hashed(std::string_view stream, int64_t index) {
  uint32_t h = static_cast<uint32_t>(index) * 2654435761u + fnv1a(stream);
  h = (h ^ (h >> 15)) * 2246822519u;
  h = (h ^ (h >> 13)) * 3266489917u;
  return h ^ (h >> 16);
}

float initial_value(const ParamSpec& param, int64_t index) {
  const float unit = float(hashed(param.name, index) >> 20) / 2048.0f - 1.0f;
  if (param.init == ParamInit::One) return 1.0f + unit / 4.0f;
  return unit / (param.shape.rank() == 2 ? 4.0f : 8.0f);
}

class GoldenTokens : public TokenSource {
 public:
  int64_t vocab_size() const override { return kVocab; }
  // Every step uses the same three sequences.
  void read_sample(uint64_t sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override {
    const int64_t sequence = int64_t(sample) % kSequences;
    const auto token = [&](int64_t t) {
      return int32_t(hashed("tokens", sequence * (kSeqLen + 1) + t) % kVocab);
    };
    for (int64_t t = 0; t < kSeqLen; ++t) {
      inputs[t] = token(t);
      targets[t] = sequence == 1 && t == 5 ? kIgnoredTarget : token(t + 1);
    }
  }
};

// --- The models ----------------------------------------------------------------------------------

ModelConfig model_of(const std::string& name) {
  ModelConfig model;
  model.layers = 2;
  model.d_model = 32;
  model.heads = 4;
  model.vocab_size = kVocab;
  model.seq_len = kSeqLen;
  model.tied_head = name == "gpt2";
  if (name == "gpt2_erf") model.activation = ActivationChoice::GeluErf;
  if (name.starts_with("llama")) {
    model.family = ModelFamily::Llama;
    model.kv_heads = 2;
    model.d_ff = 96;
  }
  if (name.starts_with("moe")) {
    model.family = ModelFamily::Moe;
    model.kv_heads = 2;
    model.d_ff = 24;
    model.experts = 4;
    model.aux_loss = 0.02;
    model.z_loss = 0.01;
  }
  if (name == "moe_sigmoid") {
    model.d_ff = 16;
    model.experts = 8;
    model.top_k = 3;
    model.shared_experts = 2;
    model.router = RouterType::Sigmoid;
    model.expert_groups = 4;
    model.top_groups = 2;
    model.aux_loss = 0.05;
    model.z_loss = 0.0;
    model.balance_rate = 0.03;
  }
  if (name == "llama_qk_norm") {
    model.qk_norm = true;
    model.window = 6;
  }
  if (name == "moe_latent") {
    model.kv_heads = 0;
    model.d_ff = 16;
    model.shared_experts = 1;
    model.router = RouterType::Sigmoid;
    model.routed_scaling = 2.5;
    model.aux_loss = 0.05;
    model.z_loss = 0.0;
    model.balance_rate = 0.03;
    model.head_dim = 6;
    model.q_lora_rank = 20;
    model.kv_lora_rank = 12;
    model.qk_rope_head_dim = 4;
    model.v_head_dim = 5;
    model.rope_scaling = RopeScaling::Yarn;
    model.rope_scaling_factor = 4.0;
    model.rope_high_freq_factor = 8.0;
    model.rope_original_seq_len = 32;
    model.rope_mscale = 0.7;
  }
  if (name == "llama3") {
    model.rope_scaling_factor = 8.0;
    model.rope_original_seq_len = 64;
  }
  if (name == "microgpt") {
    model.norm = NormChoice::RmsNorm;
    model.activation = ActivationChoice::Relu;
    model.bias = false;
    model.norm_gain = false;
    model.embedding_norm = true;
    model.final_norm = false;
  }
  return model;
}

struct Case {
  std::string model;
  std::string kernels;  // "reference" or an instruction set
  ComputeChoice compute = ComputeChoice::Fp32;
  bool micro_batches = false;  // one sequence at a time, recomputed, summed along the tree
};

std::string name_of(const Case& c) {
  return fmt::format("{}_{}_{}{}", c.model, c.kernels, name_of(c.compute),
                     c.micro_batches ? "_micro" : "");
}
void PrintTo(const Case& c, std::ostream* out) { *out << name_of(c); }

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = model_of(c.model);
  config.batch.global_sequences = kSequences;
  config.batch.micro_sequences = c.micro_batches ? 1 : kSequences;
  config.optim.beta1 = 0.9;
  config.optim.beta2 = 0.95;
  config.optim.eps = 1e-5;
  config.optim.weight_decay = 0.1;
  config.optim.clip_norm = 0.5;
  config.precision.compute = c.compute;
  config.memory.recompute = c.micro_batches ? Recompute::Full : Recompute::None;
  config.run.reproducible = c.micro_batches ? Reproducible::Layout : Reproducible::Fixed;
  config.run.threads_per_rank = 2;
  return config;
}

const KernelTable& kernels_of(const Case& c) {
  for (const Isa isa : supported_isas()) {
    if (c.kernels == name_of(isa)) return cpu_kernels(isa);
  }
  return reference_kernels();
}

TensorRef master_of(const Engine& engine, const std::string& name) {
  for (const OwnedTensors& owned : engine.owned()) {
    if (owned.spec->name == name) return owned.master_N;
  }
  return {};
}

void write_initial_params(Engine& engine) {
  for (const OwnedTensors& owned : engine.owned()) {
    for (int64_t i = 0; i < owned.count; ++i) {
      const float initial = initial_value(*owned.spec, i);
      owned.master_N.as<float>()[i] = initial;
      if (owned.param_N) owned.param_N.as<bf16>()[i] = bf16(initial);
    }
  }
}

std::vector<double> values_of(const TensorRef& tensor) {
  const float* values = tensor.as<float>();
  return {values, values + tensor.num_elements()};
}

// --- Comparisons ---------------------------------------------------------------------------------

double norm_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// `allowed` is per element. A projection is a sum with random signs, so it may be off by sqrt(n)
// times that.
void expect_near(const std::string& name, const std::vector<double>& values, const json& kept,
                 double allowed) {
  const int64_t n = int64_t(values.size());
  const double of_sums = allowed * std::sqrt(double(n));
  EXPECT_NEAR(norm_of(values), kept["norm"].get<double>(), of_sums) << name << " norm";
  if (kept.contains("whole")) {
    ASSERT_EQ(kept["whole"].size(), values.size()) << name;
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_NEAR(values[i], kept["whole"][i].get<double>(), 4 * allowed) << name << " " << i;
    }
    return;
  }
  for (size_t p = 0; p < kept["projections"].size(); ++p) {
    const std::string stream = fmt::format("{}/projection{}", name, p);
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += hashed(stream, i) >> 31 ? -values[i] : values[i];
    EXPECT_NEAR(sum, kept["projections"][p].get<double>(), 3 * of_sums) << stream;
  }
  for (size_t s = 0; s < kept["samples"].size(); ++s) {
    const int64_t i = hashed(name + "/samples", int64_t(s)) % n;
    EXPECT_NEAR(values[i], kept["samples"][s].get<double>(), 4 * allowed) << name << " " << i;
  }
}

class Golden : public testing::TestWithParam<Case> {
 protected:
  Golden()
      : tolerance_(GetParam().compute == ComputeChoice::Fp32 ? kFp32 : kBf16),
        kernels_(kernels_of(GetParam())) {
    const std::string path = fmt::format("{}/{}.json", TRIREME_GOLDEN_DIR, GetParam().model);
    std::ifstream file(path);
    EXPECT_TRUE(file.good()) << path;
    fixture_ = json::parse(file);
    Result<RunPlan> plan = make_plan(config_of(GetParam()), {});
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    plan_ = *plan;
    EXPECT_EQ(plan_.num_params, fixture_["num_params"].get<int64_t>());
  }

  Tolerance tolerance_;
  const KernelTable& kernels_;
  SoleRank rank_;
  GoldenTokens tokens_;
  json fixture_;
  RunPlan plan_;
};

TEST_P(Golden, Logits) {
  Engine engine(plan_, rank_.world(), kernels_, tokens_);
  write_initial_params(engine);
  const Frame params = *engine.whole_params();
  Decoder decoder(plan_.model, params, plan_.shape.compute);
  std::vector<int32_t> inputs(kSeqLen), targets(kSeqLen);
  for (size_t k = 0; k < std::size(kLogitPositions); ++k) {
    const auto [sequence, position] = kLogitPositions[k];
    tokens_.read_sample(uint64_t(sequence), inputs, targets);
    decoder.reset();
    // Decodes all positions but the last at once, and the last one with the cache.
    if (position > 0) decoder.append(engine.ctx(), {inputs.data(), size_t(position)});
    const std::span<const float> logits =
        decoder.append(engine.ctx(), {inputs.data() + position, 1});
    const std::vector<double> expected = fixture_["logits"][k];
    const double largest =
        std::abs(*std::max_element(expected.begin(), expected.end(),
                                   [](double a, double b) { return std::abs(a) < std::abs(b); }));
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t v = 0; v < expected.size(); ++v) {
      EXPECT_NEAR(logits[v], expected[v], tolerance_.logit * largest) << k << " " << v;
    }
  }
}

TEST_P(Golden, EveryGradient) {
  RankPlan rank = rank_plan(plan_, 0);
  rank.program.pop_back();  // without Step slot 0 keeps the sum of the gradients
  plan_rank_memory(rank, plan_);
  Engine engine(plan_, rank, rank_.world(), kernels_, tokens_);
  write_initial_params(engine);
  engine.step(0, 0.0);
  const Frame grads = engine.grads(0);
  const double valid_tokens = kSequences * kSeqLen - 1;
  const double whole_rms =
      fixture_["grad_norms"][0].get<double>() / std::sqrt(double(plan_.num_params));
  for (const ParamSpec& param : plan_.pipeline[0].chunks[0].params) {
    std::vector<double> grad = values_of(grads.at(param.name));
    const TensorRef head_use = grads.find(param.name + "@head");
    for (size_t i = 0; i < grad.size(); ++i) {
      if (head_use) grad[i] += head_use.as<float>()[i];
      grad[i] /= valid_tokens;
    }
    // The gradient of a key's bias is zero in exact arithmetic, so the scale is that of the whole
    // model.
    const json& kept = fixture_["grads"][param.name];
    const double rms = kept["norm"].get<double>() / std::sqrt(double(grad.size()));
    expect_near(param.name, grad, kept, tolerance_.grad * std::max(rms, whole_rms));
  }
}

TEST_P(Golden, ThreeSteps) {
  Engine engine(plan_, rank_.world(), kernels_, tokens_);
  write_initial_params(engine);
  double sum_of_lr = 0.0;
  for (int step = 0; step < 3; ++step) {
    const StepResult result = engine.step(uint64_t(step) * kSequences, kLearningRates[step]);
    sum_of_lr += kLearningRates[step];
    EXPECT_EQ(result.valid_tokens, kSequences * kSeqLen - 1);
    const double loss = fixture_["losses"][step];
    EXPECT_NEAR(result.loss_sum / double(result.valid_tokens), loss, tolerance_.loss * loss);
    const double norm = fixture_["grad_norms"][step];
    EXPECT_NEAR(result.update.grad_norm, norm, tolerance_.grad * norm);
  }
  for (const ParamSpec& param : plan_.pipeline[0].chunks[0].params) {
    expect_near(param.name, values_of(master_of(engine, param.name)),
                fixture_["weights"][param.name], tolerance_.weight * sum_of_lr);
  }
  EXPECT_EQ(engine.peak_bytes(), plan_.pipeline[0].memory.peak_bytes);
}

std::vector<Case> all_cases() {
  std::vector<std::string> tables = {"reference"};
  for (const Isa isa : supported_isas()) tables.emplace_back(name_of(isa));
  std::vector<Case> cases;
  for (const std::string model : {"gpt2", "gpt2_erf", "llama", "llama3", "microgpt", "moe_softmax",
                                  "moe_sigmoid", "llama_qk_norm", "moe_latent"}) {
    for (const std::string& table : tables) {
      for (const ComputeChoice compute : {ComputeChoice::Fp32, ComputeChoice::Bf16}) {
        // Rounding sends tokens to other experts, which changes the gradients.
        if (model.starts_with("moe") && compute == ComputeChoice::Bf16) continue;
        for (const bool micro : {false, true}) cases.push_back({model, table, compute, micro});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace trireme
