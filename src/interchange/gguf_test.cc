#include "interchange/gguf.h"

#include <cmath>
#include <cstring>
#include <fstream>

#include "base/file.h"
#include "checkpoint/checkpoint_fixture.h"
#include "interchange/gguf_elements.h"
#include "interchange/gguf_metadata.h"
#include "interchange/gguf_model.h"
#include "interchange/interchange.h"
#include "interchange/interchange_fixture.h"
#include "interchange/parse_gguf.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/byte_tokenizer.h"

namespace trireme {
namespace {

class Gguf : public FolderTest {
 protected:
  std::string path() const { return root() + "/model.gguf"; }
};

const std::pair<GgmlType, Rounding> kTypes[] = {{GgmlType::F32, Rounding::None},
                                                {GgmlType::F16, Rounding::F16},
                                                {GgmlType::BF16, Rounding::BF16},
                                                {GgmlType::Q8_0, Rounding::Q8_0}};

// No key names the activation of a gpt2, or divides the weights of experts of a deepseek; the head
// of a command-r is tied; nothing holds a window, or a module of multi-token prediction.
bool gguf_holds(const ModelSpec& model) {
  const ForeignFamily family = foreign_family(model).value();
  if (family == ForeignFamily::Gpt2) return model.mlp == MlpType::GeluTanh;
  if (family == ForeignFamily::Cohere) return model.tied_head;
  if (model.window > 0 || model.mtp_depth > 0) return false;
  return family != ForeignFamily::Deepseek;
}

TEST_F(Gguf, EveryModelComesBackAsItsTypeRoundsIt) {
  for (const char* name : kSmallModels) {
    const InterchangeModel model = random_model(name);
    for (const auto& [type, rounding] : kTypes) {
      const Status written = write_gguf(model, path(), {.matrices = type});
      if (!gguf_holds(model.weights.model())) {
        ASSERT_FALSE(written.ok()) << name;
        EXPECT_EQ(written.error().kind, ErrorKind::Infeasible);
        if (foreign_family(model.weights.model()).value() == ForeignFamily::Deepseek) {
          EXPECT_NE(written.error().message.find("--format hf"), std::string::npos);
        }
        continue;
      }
      ASSERT_TRUE(written.ok()) << message_of(written);
      const auto again = read_gguf(path());
      ASSERT_TRUE(again.ok()) << name << ": " << message_of(again);
      const Status same = compare_weights(model.weights, again->weights, rounding);
      EXPECT_TRUE(same.ok()) << name << ": " << message_of(same);
      const ModelSpec& spec = again->weights.model();
      EXPECT_EQ(spec.norm_eps, model.weights.model().norm_eps);
      EXPECT_EQ(spec.rope_theta, model.weights.model().rope_theta);
      EXPECT_EQ(spec.rope_scaling_factor, model.weights.model().rope_scaling_factor);
      if (rounding == Rounding::None) {
        EXPECT_EQ(compare_logits(model.weights, again->weights, 1).greatest_difference, 0.0);
      }
      // Values that are already rounded do not change.
      const std::string bytes = read_text_file(path()).value();
      ASSERT_TRUE(write_gguf(*again, path(), {.matrices = type}).ok());
      if (rounding != Rounding::Q8_0) {
        EXPECT_EQ(read_text_file(path()).value(), bytes);
      }
    }
  }
}

// Readers of llama rotate neighbours (2p, 2p + 1) where ours rotate (p, p + D/2). With the rows as
// written both give the same products of queries and keys.
TEST_F(Gguf, NeighboursTurnAsHalvesDo) {
  const InterchangeModel model = random_model("llama_head_dim");
  const ModelSpec& spec = model.weights.model();
  const int64_t D = spec.head_dim;
  for (const ForeignTensor& tensor : gguf_tensors(spec, ForeignFamily::Llama)) {
    if (tensor.interleaved_head_dim == 0) continue;
    std::vector<float> theirs(size_t(tensor.shape.num_elements()));
    gather(tensor, model.weights, theirs);
    const auto ours = model.weights.at(tensor.params[0]);
    const int64_t C = tensor.shape[1];
    for (int64_t head = 0; head < tensor.shape[0] / D; ++head) {
      for (int64_t pair = 0; pair < D / 2; ++pair) {
        for (int64_t half = 0; half < 2; ++half) {
          for (int64_t col = 0; col < C; ++col) {
            ASSERT_EQ(theirs[(head * D + 2 * pair + half) * C + col],
                      ours[(head * D + half * (D / 2) + pair) * C + col]);
          }
        }
      }
    }
  }
}

// Readers of deepseek2 multiply the queries of a head by attn_k_b [latent, width], and its output
// by attn_v_b [width, latent]; their cache has one head of latents and of the part with positions.
TEST_F(Gguf, LatentAttentionIsWrittenForOneHeadOfLatents) {
  const InterchangeModel model = random_model("deepseek_v3");
  const ModelSpec& spec = model.weights.model();
  const int64_t H = spec.heads, D = spec.head_dim, R = spec.kv_lora_rank, V = spec.v_head_dim;
  int num_found = 0;
  for (const ForeignTensor& tensor : gguf_tensors(spec, ForeignFamily::DeepseekV3)) {
    const bool is_k = tensor.name == "blk.1.attn_k_b.weight";
    if (!is_k && tensor.name != "blk.1.attn_v_b.weight") continue;
    ++num_found;
    EXPECT_EQ(tensor.shape, is_k ? (Shape{H, R, D}) : (Shape{H, V, R}));
    std::vector<float> theirs(size_t(tensor.shape.num_elements()));
    gather(tensor, model.weights, theirs);
    const auto ours = model.weights.at(tensor.params[0]);
    for (int64_t head = 0; head < H; ++head) {
      for (int64_t r = 0; r < R; ++r) {
        for (int64_t d = 0; is_k && d < D; ++d) {
          ASSERT_EQ(theirs[(head * R + r) * D + d], ours[(head * D + d) * R + r]);
        }
        for (int64_t v = 0; !is_k && v < V; ++v) {
          ASSERT_EQ(theirs[(head * V + v) * R + r], ours[(head * V + v) * R + r]);
        }
      }
    }
  }
  EXPECT_EQ(num_found, 2);
  GgufHeader header;
  ASSERT_TRUE(add_gguf_model(spec, header).ok());
  const auto count = [&](const char* key) {
    const GgufValue* value = header.find(std::string("deepseek2.") + key);
    return value == nullptr ? -1 : int64_t(std::get<uint64_t>(value->value));
  };
  EXPECT_EQ(count("attention.head_count_kv"), 1);
  EXPECT_EQ(count("attention.key_length"), R + spec.qk_rope_head_dim);
  EXPECT_EQ(count("attention.value_length"), R);
  EXPECT_EQ(count("attention.key_length_mla"), D + spec.qk_rope_head_dim);
  EXPECT_EQ(count("attention.value_length_mla"), V);
  EXPECT_EQ(count("expert_gating_func"), 2);
}

TEST_F(Gguf, DivisorsOfScaledPositionsAreThoseOfTheFrequencies) {
  ModelConfig config = small_model("llama");
  config.d_model = 256;
  config.rope_theta = 500000.0;
  config.rope_scaling_factor = 8.0;
  config.rope_original_seq_len = 8192;
  const auto divisors = gguf_rope_freqs(*resolve_model(config, 0));
  ASSERT_EQ(divisors.size(), 32u);
  for (size_t pair = 0; pair < divisors.size(); ++pair) {
    const double wavelength = 2 * M_PI * std::pow(500000.0, double(pair) / 32.0);
    if (wavelength < 8192.0 / 4) {
      EXPECT_EQ(divisors[pair], 1.0f);
    }
    if (wavelength > 8192.0) {
      EXPECT_EQ(divisors[pair], 8.0f);
    }
    if (pair > 0) {
      EXPECT_GE(divisors[pair], divisors[pair - 1]);
    }
  }
}

TEST_F(Gguf, TokenizersAreInsideAndTheRestOfTheVocabularyIsUnused) {
  InterchangeModel model{.config = small_model("gpt2"),
                         .weights = Weights(*resolve_model(small_model("gpt2"), 0))};
  model.config.vocab_size = 300;
  model.weights = Weights(*resolve_model(model.config, 0));
  model.tokenizer = std::make_unique<BpeTokenizer>(
      std::move(*BpeTokenizer::make({{64, 65}, {220, 256}, {257, 66}})));
  ASSERT_TRUE(write_gguf(model, path(), {}).ok());
  const auto again = read_gguf(path());
  ASSERT_TRUE(again.ok()) << message_of(again);
  ASSERT_NE(again->tokenizer, nullptr);
  EXPECT_EQ(again->tokenizer->hash(), model.tokenizer->hash());
  const auto file = read_text_file(path());
  const auto header =
      parse_gguf_header(std::as_bytes(std::span(*file)), static_cast<int64_t>(file->size()));
  EXPECT_EQ(std::get<std::vector<std::string>>(header->find("tokenizer.ggml.tokens")->value).size(),
            300u);

  model.tokenizer = std::make_unique<ByteTokenizer>();
  ASSERT_TRUE(write_gguf(model, path(), {}).ok());
  EXPECT_EQ(read_gguf(path())->tokenizer->encode("\xE9t").value(),
            model.tokenizer->encode("\xE9t").value());
  model.tokenizer = nullptr;
  ASSERT_TRUE(write_gguf(model, path(), {}).ok());
  EXPECT_EQ(read_gguf(path())->tokenizer, nullptr);
}

// The header is read in growing pieces and may end anywhere after the first one.
TEST_F(Gguf, AHeaderOfAnyLengthIsRead) {
  const InterchangeModel model = random_model("llama");
  for (const size_t length : {size_t{1} << 20, (size_t{3} << 20) + 5}) {
    ASSERT_TRUE(write_gguf(model, path(), {.name = std::string(length, 'x')}).ok());
    const auto again = read_gguf(path());
    ASSERT_TRUE(again.ok()) << message_of(again);
    EXPECT_EQ(again->weights.at("embedding.tokens").size(),
              model.weights.at("embedding.tokens").size());
  }
}

// A block of equal steps is restored exactly, any other block to within half a step.
TEST_F(Gguf, BlocksOfQ8AreExactWhereTheyCanBe) {
  std::vector<float> elements(64), again(64);
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < 64; ++i) elements[i] = float(int(i * 37 % 255) - 127) * 0.125f;
  elements[3] = 127 * 0.125f, elements[40] = -127 * 0.125f;
  ASSERT_EQ(encode_ggml(GgmlType::Q8_0, elements, bytes), -1);
  EXPECT_EQ(bytes.size(), 68u);
  ASSERT_EQ(decode_ggml(GgmlType::Q8_0, bytes, again), -1);
  EXPECT_EQ(again, elements);
  for (float scale : {0.0f, 1e-44f, 1e-38f, 1e-6f, 1e6f}) {
    for (size_t i = 0; i < 64; ++i) elements[i] = scale * std::sin(float(i));
    ASSERT_EQ(encode_ggml(GgmlType::Q8_0, elements, bytes), -1) << scale;
    ASSERT_EQ(decode_ggml(GgmlType::Q8_0, bytes, again), -1);
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_NEAR(again[i], elements[i], std::max(scale * (0.5f / 127 + 1e-3f), 4e-6f));
    }
  }
  elements[33] = 1e8f;
  EXPECT_EQ(encode_ggml(GgmlType::Q8_0, elements, bytes), 32);
}

TEST_F(Gguf, EveryTruncationAndEveryDamagedByteOfTheHeaderIsRefusedOrHarmless) {
  ASSERT_TRUE(write_gguf(random_model("llama3_untied"), path(), {.matrices = GgmlType::F32}).ok());
  const std::string whole = read_text_file(path()).value();
  const auto header = parse_gguf_header(std::as_bytes(std::span(whole)), int64_t(whole.size()));
  ASSERT_TRUE(header.ok());
  const auto write = [&](std::string_view bytes) {
    std::ofstream(path(), std::ios::binary) << bytes;
  };
  for (int64_t size = 1; size < int64_t(whole.size()); size += size < 600 ? 7 : 997) {
    write(std::string_view(whole).substr(0, size_t(size)));
    EXPECT_FALSE(read_gguf(path()).ok()) << size;
  }
  for (int64_t byte = 0; byte < header->data_offset; byte += 3) {
    std::string damaged = whole;
    damaged[size_t(byte)] ^= char(1 << byte % 8);
    write(damaged);
    const auto read = read_gguf(path());
    if (!read.ok()) {
      EXPECT_FALSE(message_of(read).empty());
    }
  }
}

}  // namespace
}  // namespace trireme
