#include "models/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/align.h"
#include "comm/local/sole_rank.h"
#include "kernels/kernel_table.h"
#include "memory/bucket.h"
#include "models/init.h"
#include "models/quantized_params.h"
#include "models/stage.h"
#include "models/stage_fixture.h"
#include "tensor/tensor.h"

namespace trireme {
namespace {

constexpr int64_t kTextLen = 19;  // odd against every vector width and attention tile
constexpr int64_t kTextVocab = 23;

ModelConfig text_config_of(const std::string& name) {
  ModelConfig config;
  config.layers = 2;
  config.d_model = 24;
  config.heads = 4;
  config.vocab_size = kTextVocab;
  config.seq_len = kTextLen;
  config.init_stddev = 0.2;
  config.dropout = 0.3;  // of training alone
  config.tied_head = name != "gpt2_untied";
  if (name == "llama") {
    config.family = ModelFamily::Llama;
    config.kv_heads = 2;
    config.d_ff = 40;
  }
  if (name == "llama_qk_norm") {
    config.family = ModelFamily::Llama;
    config.qk_norm = true;
    config.window = 7;
  }
  if (name.starts_with("moe_latent")) {
    config.head_dim = 5;
    config.kv_lora_rank = 10;
    config.q_lora_rank = 9;
    config.qk_rope_head_dim = 4;
    config.v_head_dim = 7;
    config.router = RouterType::Sigmoid;
    config.routed_scaling = 2.5;
    config.window = 9;
  }
  if (name.starts_with("moe")) {
    config.family = ModelFamily::Moe;
    config.d_ff = 20;
    config.experts = name == "moe" ? 5 : kTextLen - 1;  // so many begins as tokens
    config.shared_experts = 1;
  }
  if (name == "adapters" || name == "moe_latent_adapters") config.lora_rank = 3;
  if (name == "moe_latent_adapters") config.lora_targets = "q_a,q_b,kv_a,kv_b,o";
  if (name == "microgpt") {
    config.norm = NormChoice::RmsNorm;
    config.activation = ActivationChoice::Relu;
    config.bias = false;
    config.norm_gain = false;
    config.embedding_norm = true;
    config.final_norm = false;
  }
  return config;
}

ModelSpec text_model_of(const std::string& name) { return *resolve_model(text_config_of(name), 0); }

// The same with rows of whole blocks of a scale.
ModelSpec wide_text_model_of(const std::string& name) {
  ModelConfig config = text_config_of(name);
  config.d_model = kScaleBlock;
  config.d_ff = round_up(config.d_ff, kScaleBlock);
  return *resolve_model(config, 0);
}

// Overwrites the matrices of `params` with what the bytes of the quantized table stand for. Returns
// their number.
int unpack_params(const TensorTable& table, const Frame& quantized, const Frame& params) {
  int count = 0;
  for (const TensorSpec& tensor : table.tensors()) {
    const size_t end = tensor.name.find(kQuantized);
    if (end == std::string::npos) continue;
    const std::string name = tensor.name.substr(0, end);
    const MatrixRef w = matrix(params.at(name)),
                    scale = matrix(quantized.at(name + kQuantizedScale));
    const auto* q = static_cast<const int8_t*>(quantized.at(tensor.name).data);
    for (int64_t i = 0; i < w.rows * w.cols; ++i) {
      const f16* const scale_B = scale.row<f16>(i / w.cols);
      w.row<float>(0)[i] = float(q[i]) * float(scale_B[i % w.cols / kScaleBlock]);
    }
    ++count;
  }
  return count;
}

const char* const kTextModels[] = {"gpt2", "gpt2_untied",   "llama",      "microgpt",
                                   "moe",  "llama_qk_norm", "moe_latent", "moe_latent_adapters"};

std::vector<int32_t> some_tokens() {
  std::vector<int32_t> tokens;
  for (int32_t t = 0; t < kTextLen; ++t) tokens.push_back((t * 7 + t * t) % kTextVocab);
  return tokens;
}

using Logits = std::vector<std::vector<double>>;  // [position][token], as log probabilities

// A whole model as the trainer holds it, on one sequence.
class WholeModel {
 public:
  WholeModel(const ModelSpec& model, const KernelTable& kernels, DType compute)
      : model_(model),
        shape_{.micro_sequences = 1, .compute = compute},
        tables_(stage_tables(model, whole_model(model), shape_)),
        params_(memory(tables_.params)),
        optimizer_(memory(tables_.optimizer)),
        grads_(memory(tables_.grads)),
        saved_(memory(tables_.saved)),
        scratch_(memory(tables_.scratch)),
        workspace_(DType::U8, Shape{kWorkspaceBytesPerThread}),
        stream_(team_,
                {static_cast<std::byte*>(workspace_.ref().data), size_t(workspace_.ref().bytes())}),
        ctx_{stream_, kernels, rank_.group(), rank_.group(), rank_.group(), rank_.group()},
        stage_(model, whole_model(model), shape_, tables_,
               {std::vector<void*>(size_t(units()), params_.ref().data),
                scratch_.ref().data,
                {std::vector<void*>(size_t(units()), grads_.ref().data)},
                {saved_.ref().data},
                {}},
               5) {
    init_params(ctx_, param_table(model, whole_model(model)), params(),
                Frame(tables_.optimizer, optimizer_.ref().data), 5);
    for (const TensorSpec& tensor : tables_.params.tensors()) {
      if (tensor.name.ends_with(".lora_b")) fill(params().at(tensor.name));
    }
  }

  Frame params() const { return Frame(tables_.params, params_.ref().data); }
  Ctx& ctx() { return ctx_; }
  Decoder decoder() const { return Decoder(model_, params(), shape_.compute); }

  // The loss at a position is the log probability of its target: every token is made the target.
  Logits stage_logits(const std::vector<int32_t>& tokens) {
    std::copy(tokens.begin(), tokens.end(), stage_.tokens(0).begin());
    Logits logits(tokens.size(), std::vector<double>(kTextVocab));
    for (int32_t token = 0; token < kTextVocab; ++token) {
      std::fill(stage_.targets(0).begin(), stage_.targets(0).end(), token);
      for (int unit = 0; unit < stage_.num_units(); ++unit) {
        stage_.forward_unit(ctx_, {1, 0, false}, 0, unit);
      }
      for (size_t t = 0; t < tokens.size(); ++t) logits[t][token] = -stage_.losses(0)[t];
    }
    return logits;
  }

 private:
  int units() const { return num_units(whole_model(model_)); }

  // With the zeros that it begins with, an adapter would add nothing.
  static void fill(const TensorRef& b) {
    for (int64_t i = 0; i < b.num_elements(); ++i) {
      write_element(b.data, b.dtype, i, 0.2 * std::sin(double(i) * 0.7));
    }
  }

  static Tensor memory(const TensorTable& table) {
    Tensor tensor(DType::U8, Shape{std::max<int64_t>(64, table.bytes())});
    std::memset(tensor.ref().data, 0xff, size_t(tensor.ref().bytes()));  // NaN in every dtype
    return tensor;
  }

  ModelSpec model_;
  StageShape shape_;
  StageTables tables_;
  Tensor params_, optimizer_, grads_, saved_, scratch_;
  ThreadTeam team_{1};
  Tensor workspace_;
  Stream stream_;
  SoleRank rank_;
  Ctx ctx_;
  Stage stage_;
};

std::vector<double> log_softmax(std::span<const float> logits) {
  double greatest = logits[0], sum = 0.0;
  for (const float x : logits) greatest = std::max(greatest, double(x));
  for (const float x : logits) sum += std::exp(double(x) - greatest);
  std::vector<double> log_probabilities;
  for (const float x : logits) log_probabilities.push_back(x - greatest - std::log(sum));
  return log_probabilities;
}

// What the trainer scores is what the decoder draws from: both round at the same places, so the
// bound is that of the fp32 loss from which the logarithm is read, in either dtype.
TEST(Decoder, LogitsAreThoseOfTheStageForEveryModelAndDtype) {
  const std::vector<int32_t> tokens = some_tokens();
  for (const KernelTable* kernels : all_kernels()) {
    for (const char* name : kTextModels) {
      for (const DType compute : {DType::F32, DType::BF16}) {
        SCOPED_TRACE(std::string(kernels->name) + " " + name + " " + std::string(name_of(compute)));
        WholeModel model(text_model_of(name), *kernels, compute);
        const Logits expected = model.stage_logits(tokens);
        // Here queries are multiplied by latents, so the rounding differs.
        const bool has_latents = text_model_of(name).has_latents();
        const double bound = !has_latents ? 2e-6 : compute == DType::F32 ? 2e-5 : 0.1;
        Decoder decoder = model.decoder();
        for (size_t t = 0; t < tokens.size(); ++t) {
          const auto got = log_softmax(decoder.append(model.ctx(), {&tokens[t], 1}));
          for (int64_t token = 0; token < kTextVocab; ++token) {
            ASSERT_NEAR(got[token], expected[t][token], bound) << "position " << t;
          }
        }
      }
    }
  }
}

// A decoder of quantized weights has the logits of one whose weights are what the bytes stand for.
TEST(Decoder, QuantizedWeightsHaveTheLogitsOfWhatTheirBytesStandFor) {
  for (const KernelTable* kernels : all_kernels()) {
    for (const char* name : {"gpt2", "gpt2_untied", "llama", "moe", "adapters"}) {
      SCOPED_TRACE(std::string(kernels->name) + " " + name);
      WholeModel model(wide_text_model_of(name), *kernels, DType::F32);
      const TensorTable table = quantized_table(wide_text_model_of(name), DType::F32);
      Buffer memory = Buffer::allocate(table.bytes());
      const Frame quantized(table, memory.data());
      ASSERT_TRUE(quantize_params(model.params(), table, quantized, model.ctx().stream).ok());
      const int num_unpacked = unpack_params(table, quantized, model.params());
      EXPECT_GE(num_unpacked, 8);
      // A table that is looked up, too, has the numbers that the head multiplies. Bytes stay as
      // they are.
      ASSERT_TRUE(quantize_params(model.params(), table, quantized, model.ctx().stream).ok());
      Decoder of_bytes(wide_text_model_of(name), quantized, DType::F32);
      Decoder of_numbers(wide_text_model_of(name), model.params(), DType::F32);
      const std::vector<int32_t> tokens = some_tokens();
      for (const size_t piece : {size_t(1), size_t(7)}) {  // few rows and more
        of_bytes.reset();
        of_numbers.reset();
        for (size_t begin = 0; begin < tokens.size(); begin += piece) {
          const size_t count = std::min(piece, tokens.size() - begin);
          const auto got = of_bytes.append(model.ctx(), {&tokens[begin], count});
          const auto want = of_numbers.append(model.ctx(), {&tokens[begin], count});
          for (int64_t token = 0; token < kTextVocab; ++token) {
            ASSERT_NEAR(got[token], want[token], 2e-5) << "position " << begin;
          }
        }
      }
    }
  }
}

TEST(Decoder, AMatrixWhoseWeightsBytesCannotSayIsNamed) {
  WholeModel model(wide_text_model_of("llama"), *all_kernels().front(), DType::F32);
  const TensorTable table = quantized_table(wide_text_model_of("llama"), DType::F32);
  Buffer memory = Buffer::allocate(table.bytes());
  const Frame quantized(table, memory.data());
  const auto held = [&] {
    return quantize_params(model.params(), table, quantized, model.ctx().stream);
  };
  const std::string scale = kQuantizedScale;
  for (const TensorSpec& tensor : table.tensors()) {
    if (!tensor.name.ends_with(scale)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - scale.size());
    float* const weight = static_cast<float*>(model.params().at(name).data) + 33;
    const float before = *weight;
    for (const float wrong : {std::nanf(""), INFINITY, -INFINITY, -8.33e6f}) {
      *weight = wrong;
      const Status refused = held();
      ASSERT_FALSE(refused.ok()) << name << " " << wrong;
      EXPECT_EQ(refused.error().kind, ErrorKind::Damaged);
      EXPECT_TRUE(refused.error().message.starts_with(name + " has a weight"))
          << refused.error().message;
    }
    *weight = 8.3e6f;
    EXPECT_TRUE(held().ok()) << name;
    *weight = before;
  }
}

// However the context comes: whole, in pieces, or after another one.
TEST(Decoder, PiecesOfAContextChangeNoBit) {
  const std::vector<int32_t> tokens = some_tokens();
  for (const KernelTable* kernels : all_kernels()) {
    for (const char* name : kTextModels) {
      for (const DType compute : {DType::F32, DType::BF16}) {
        SCOPED_TRACE(std::string(kernels->name) + " " + name + " " + std::string(name_of(compute)));
        WholeModel model(text_model_of(name), *kernels, compute);
        Decoder decoder = model.decoder();
        const std::span<const float> whole = decoder.append(model.ctx(), tokens);
        const std::vector<float> expected(whole.begin(), whole.end());
        for (size_t piece = 1; piece < tokens.size(); piece += 3) {
          decoder.reset();
          std::span<const float> got;
          for (size_t begin = 0; begin < tokens.size(); begin += piece) {
            const size_t count = std::min(piece, tokens.size() - begin);
            got = decoder.append(model.ctx(), {&tokens[begin], count});
          }
          EXPECT_EQ(decoder.length(), kTextLen);
          EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size() * sizeof(float)), 0)
              << "pieces of " << piece;
        }
      }
    }
  }
}

// Three sequences in calls that have pieces of all of them or of some, and begin one again.
TEST(Decoder, SequencesBesideOthersHaveTheBitsThatTheyHaveAlone) {
  std::vector<std::vector<int32_t>> texts(3, some_tokens());
  for (size_t s = 1; s < texts.size(); ++s) {
    for (int32_t& token : texts[s]) token = (token * 5 + int32_t(s)) % kTextVocab;
  }
  for (const KernelTable* kernels : all_kernels()) {
    for (const char* name : kTextModels) {
      for (const DType compute : {DType::F32, DType::BF16}) {
        SCOPED_TRACE(std::string(kernels->name) + " " + name + " " + std::string(name_of(compute)));
        const ModelSpec spec = text_model_of(name);
        WholeModel model(spec, *kernels, compute);
        Decoder alone = model.decoder(), several(spec, model.params(), compute, 3);
        const auto expect_same = [&](const std::vector<NextTokens>& next) {
          several.append(model.ctx(), next);
          for (size_t k = 0; k < next.size(); ++k) {
            const int64_t s = next[k].sequence, length = several.length(s);
            alone.reset();
            const auto want = alone.append(model.ctx(), {texts[size_t(s)].data(), size_t(length)});
            EXPECT_EQ(
                std::memcmp(several.logits(int64_t(k)).data(), want.data(), want.size_bytes()), 0)
                << "sequence " << s << " of length " << length;
          }
        };
        const auto next = [&](int64_t s, size_t count) {
          return NextTokens{s,
                            std::span(texts[size_t(s)]).subspan(size_t(several.length(s)), count)};
        };
        expect_same({next(0, 3), next(1, 5), next(2, 1)});
        expect_same({next(0, 1), next(1, 1), next(2, 1)});
        expect_same({next(0, 2), next(2, 6)});
        several.reset(0);
        expect_same({next(0, 7), next(1, 1), next(2, 1)});
        expect_same({next(1, 1)});
        EXPECT_THROW(several.append(model.ctx(), std::vector{next(1, 1), next(1, 1)}),
                     ContractError);
        EXPECT_THROW(several.append(model.ctx(), std::vector{next(0, 12), next(1, 11)}),
                     ContractError);
      }
    }
  }
}

}  // namespace
}  // namespace trireme
