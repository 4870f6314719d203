#include "models/transformer_stage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "comm/local/sole_rank.h"
#include "kernels/kernel_table.h"
#include "models/init.h"
#include "tensor/tensor.h"

namespace trireme {
namespace {

constexpr int64_t kSeqLen = 12;  // odd against every vector width and attention tile
constexpr int64_t kSequences = 3;
constexpr int64_t kVocab = 37;

ModelSpec model_of(const std::string& name) {
  ModelConfig config;
  config.layers = 2;
  config.d_model = 24;
  config.heads = 4;
  config.vocab_size = kVocab;
  config.seq_len = kSeqLen;
  config.init_stddev = 0.2;
  config.tied_head = name.ends_with("tied");
  if (name.starts_with("gpt2_dropout")) config.dropout = 0.2;
  if (name.starts_with("llama")) {
    config.family = ModelFamily::Llama;
    config.kv_heads = 2;
    config.d_ff = 40;
  }
  if (name == "llama_dropout") config.dropout = 0.3;
  if (name == "microgpt") {
    config.norm = "rms_norm";
    config.activation = "relu";
    config.bias = false;
    config.norm_gain = false;
    config.embedding_norm = true;
    config.final_norm = false;
  }
  if (name == "gpt2_erf_embedding_norm") {
    config.activation = "gelu_erf";
    config.embedding_norm = true;
  }
  return *resolve_model(config, 0);
}

const char* const kModels[] = {"gpt2_tied", "gpt2_dropout_tied", "gpt2_erf_embedding_norm",
                               "llama",     "llama_dropout",     "microgpt"};

// How a micro-batch is computed: nothing of it may change a bit.
struct Way {
  Recompute recompute = Recompute::None;
  bool split_backward = false;
  int num_threads = 1;
};

// A stage over tables of its own, each piece of memory filled with a pattern first: whoever reads
// what was not written shows.
class TestStage {
 public:
  TestStage(const ModelSpec& model, const KernelTable& kernels, DType compute, Way way = {},
            bool tied_use_apart = false)
      : way_(way),
        model_(model),
        shape_{kSequences, compute, way.recompute, way.split_backward, tied_use_apart},
        tables_(stage_tables(model, whole_model(model), shape_)),
        params_(memory(tables_.params)),
        optimizer_(memory(tables_.optimizer)),
        grads_(memory(tables_.grads)),
        saved_(memory(tables_.saved)),
        weight_grad_(memory(tables_.weight_grad)),
        scratch_(memory(tables_.scratch)),
        team_(way.num_threads),
        workspace_(DType::U8, Shape{way.num_threads * kWorkspaceBytesPerThread}),
        stream_(team_,
                {static_cast<std::byte*>(workspace_.ref().data), size_t(workspace_.ref().bytes())}),
        ctx_{stream_, kernels, rank_.group()},
        stage_(model, whole_model(model), shape_, tables_, stage_memory(), kSeed) {
    init_params(ctx_, param_table(model, whole_model(model)), params(),
                Frame(tables_.optimizer, optimizer_.ref().data), kSeed);
    for (int64_t t = 0; t < kSequences * kSeqLen; ++t) {
      stage_.tokens(0)[t] = int32_t((t * 7 + t * t) % kVocab);
      stage_.targets(0)[t] = t % 11 == 3 ? kIgnoredTarget : int32_t((t * 5 + 1) % kVocab);
    }
  }

  // Sum of the losses.
  double forward(bool training = true) {
    stage_.forward(ctx_, info(training), 0);
    double sum = 0.0;
    for (const float loss : stage_.losses(0)) sum += loss;
    return sum;
  }

  void backward(Write write = Write::Overwrite) {
    const StageSlots slots{0, 0, 0, write};
    if (way_.split_backward) {
      stage_.backward_input(ctx_, info(true), slots);
      stage_.backward_weight(ctx_, info(true), slots);
    } else {
      stage_.backward(ctx_, info(true), slots);
    }
  }

  Frame params() const { return Frame(tables_.params, params_.ref().data); }
  Frame grads() const { return Frame(tables_.grads, grads_.ref().data); }
  const StageTables& tables() const { return tables_; }
  std::vector<float> losses() const { return {stage_.losses(0).begin(), stage_.losses(0).end()}; }

  // The gradient of a parameter, both uses of a tied one together.
  std::vector<float> grad(const std::string& name) const {
    const TensorRef grad = grads().at(name);
    std::vector<float> values(grad.as<float>(), grad.as<float>() + grad.num_elements());
    if (const TensorRef head = grads().find(name + "@head")) {
      for (size_t i = 0; i < values.size(); ++i) values[i] += head.as<float>()[i];
    }
    return values;
  }
  std::map<std::string, std::vector<float>> all_grads() const {
    std::map<std::string, std::vector<float>> all;
    for (const TensorSpec& tensor : tables_.grads.tensors()) {
      const float* values = grads().at(tensor.name).as<float>();
      all[tensor.name] = {values, values + tensor.shape.num_elements()};
    }
    return all;
  }

 private:
  static constexpr uint64_t kSeed = 5;

  static Tensor memory(const TensorTable& table) {
    Tensor tensor(DType::U8, Shape{std::max<int64_t>(64, table.bytes())});
    std::memset(tensor.ref().data, 0xff, size_t(tensor.ref().bytes()));  // NaN in every dtype
    return tensor;
  }
  StageMemory stage_memory() const {
    StageMemory memory{
        params_.ref().data, scratch_.ref().data, {grads_.ref().data}, {saved_.ref().data}, {}};
    if (way_.split_backward) memory.weight_grad_slots = {weight_grad_.ref().data};
    return memory;
  }
  MicrobatchInfo info(bool training) const { return {kSequences, 17, training}; }

  Way way_;
  ModelSpec model_;
  StageShape shape_;
  StageTables tables_;
  Tensor params_, optimizer_, grads_, saved_, weight_grad_, scratch_;
  ThreadTeam team_;
  Tensor workspace_;
  Stream stream_;
  SoleRank rank_;
  Ctx ctx_;
  TransformerStage stage_;
};

std::vector<const KernelTable*> all_kernels() {
  std::vector<const KernelTable*> tables = {&reference_kernels()};
  for (const Isa isa : supported_isas()) tables.push_back(&cpu_kernels(isa));
  return tables;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(TransformerStage, RecomputationSplittingAndThreadsChangeNoBit) {
  for (const KernelTable* kernels : all_kernels()) {
    for (const DType compute : {DType::F32, DType::BF16}) {
      for (const char* name : kModels) {
        const ModelSpec model = model_of(name);
        TestStage base(model, *kernels, compute);
        base.forward();
        base.backward();
        const auto expected = base.all_grads();
        for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
          for (const bool split : {false, true}) {
            const int num_threads = split ? 2 : recompute == Recompute::None ? 4 : 3;
            TestStage stage(model, *kernels, compute, {recompute, split, num_threads});
            stage.forward();
            stage.backward();
            SCOPED_TRACE(fmt::format("{} {} {} recompute {} split {} threads {}", kernels->name,
                                     name_of(compute), name, int(recompute), split, num_threads));
            EXPECT_TRUE(same_bits(stage.losses(), base.losses()));
            for (const auto& [param, grad] : stage.all_grads()) {
              EXPECT_TRUE(same_bits(grad, expected.at(param))) << param;
            }
          }
        }
      }
    }
  }
}

TEST(TransformerStage, AccumulatingTwiceDoublesTheGradient) {
  for (const KernelTable* kernels : all_kernels()) {
    for (const bool apart : {false, true}) {
      for (const char* name : kModels) {
        TestStage stage(model_of(name), *kernels, DType::F32, {}, apart);
        stage.forward();
        stage.backward(Write::Overwrite);
        const auto once = stage.all_grads();
        stage.backward(Write::Accumulate);
        for (const auto& [param, twice] : stage.all_grads()) {
          for (size_t i = 0; i < twice.size(); ++i) {
            const float expected = 2.0f * once.at(param)[i];
            ASSERT_NEAR(twice[i], expected, 2e-4f + 1e-4f * std::abs(expected))
                << kernels->name << " " << name << " " << param << " " << i;
          }
        }
      }
    }
  }
}

TEST(TransformerStage, ATiedTableHasTheSumOfItsTwoUses) {
  for (const KernelTable* kernels : all_kernels()) {
    const ModelSpec model = model_of("gpt2_tied");
    TestStage together(model, *kernels, DType::F32, {}, false);
    TestStage apart(model, *kernels, DType::F32, {}, true);
    for (TestStage* stage : {&together, &apart}) {
      stage->forward();
      stage->backward();
    }
    for (const ParamSpec& param : param_table(model, whole_model(model))) {
      const std::vector<float> a = together.grad(param.name), b = apart.grad(param.name);
      if (param.name != "embedding.tokens") {
        EXPECT_TRUE(same_bits(a, b)) << param.name;
        continue;
      }
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << i;
    }
  }
}

TEST(TransformerStage, EvaluationIsTheModelWithoutDropout) {
  for (const KernelTable* kernels : all_kernels()) {
    ModelSpec model = model_of("gpt2_dropout_tied");
    TestStage with_dropout(model, *kernels, DType::F32);
    model.dropout = 0.0;
    TestStage without(model, *kernels, DType::F32);
    const double in_training = with_dropout.forward(true);
    with_dropout.forward(false);
    without.forward(true);
    EXPECT_TRUE(same_bits(with_dropout.losses(), without.losses())) << kernels->name;
    double evaluated = 0.0;
    for (const float loss : without.losses()) evaluated += loss;
    EXPECT_NE(in_training, evaluated);
  }
}

// Central differences of the loss of the whole stage, along the gradient of each parameter and for
// its largest and one other element. Losses carry about seven digits, which bounds the step.
class FiniteDifferences {
 public:
  explicit FiniteDifferences(TestStage& stage) : stage_(stage) {
    stage_.forward();
    stage_.backward();
  }

  // <gradient, direction> against the slope of the loss.
  void check(const std::string& param, const std::vector<float>& direction, double step) {
    const std::vector<float> grad = stage_.grad(param);
    double slope = 0.0, largest = 0.0, length = 0.0;
    for (size_t i = 0; i < grad.size(); ++i) {
      slope += double(grad[i]) * double(direction[i]);
      largest += double(grad[i]) * double(grad[i]);
      length += double(direction[i]) * double(direction[i]);
    }
    const double measured =
        (loss_at(param, direction, step) - loss_at(param, direction, -step)) / (2.0 * step);
    EXPECT_NEAR(measured, slope, 4e-3 * std::sqrt(largest * length) + 1e-3) << param;
  }

 private:
  double loss_at(const std::string& param, const std::vector<float>& direction, double step) {
    float* values = stage_.params().at(param).as<float>();
    const std::vector<float> kept(values, values + direction.size());
    for (size_t i = 0; i < kept.size(); ++i) values[i] += float(step) * direction[i];
    const double loss = stage_.forward();
    std::copy(kept.begin(), kept.end(), values);
    return loss;
  }

  TestStage& stage_;
};

TEST(TransformerStage, GradientsAreSlopesOfTheLoss) {
  for (const KernelTable* kernels : all_kernels()) {
    for (const char* name : kModels) {
      SCOPED_TRACE(fmt::format("{} {}", kernels->name, name));
      const ModelSpec model = model_of(name);
      TestStage stage(model, *kernels, DType::F32);
      FiniteDifferences differences(stage);
      for (const ParamSpec& param : param_table(model, whole_model(model))) {
        std::vector<float> direction = stage.grad(param.name);
        const auto largest =
            std::max_element(direction.begin(), direction.end(),
                             [](float a, float b) { return std::abs(a) < std::abs(b); });
        const size_t elements[] = {size_t(largest - direction.begin()), direction.size() / 3};
        double norm = 0.0;
        for (const float d : direction) norm += double(d) * d;
        // A key's bias moves nothing: its gradient is rounding, and no direction.
        const bool vanishes = param.name.ends_with("attn.bk");
        for (float& d : direction) d = vanishes ? 1.0f : d / float(std::sqrt(norm));
        differences.check(param.name, direction, 5e-3);
        for (const size_t i : elements) {
          std::vector<float> one(direction.size(), 0.0f);
          one[i] = 1.0f;
          differences.check(param.name, one, 5e-3);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
