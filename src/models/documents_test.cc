#include <fmt/format.h>

#include "models/split_stage.h"

namespace trireme {
namespace {

// Borders inside the chunks of every cp rank, on their edges, and none.
const std::vector<std::vector<int64_t>> kDocuments = {{0, 1, 5, 9}, {0, 6}, {0}};

Outcome run_documents(const ModelSpec& model, Way way, int tp = 1, int cp = 1) {
  way.documents = kDocuments;
  return run_stage(model, fastest_kernels(), tp, way, cp);
}

// Dropout, biases, experts, tied tables, learned and rotary positions.
TEST(DocumentMask, LossesAndEveryGradientAreThoseOfOneRank) {
  for (const char* name : {"gpt2_dropout_tied", "llama_dropout", "moe", "llama_lora", "parallel",
                           "llama_window", "llama_qk_norm"}) {
    const ModelSpec model = model_of(name);
    const Outcome one = run_documents(model, {});
    for (const ContextExchange exchange : {ContextExchange::Ring, ContextExchange::AllToAll}) {
      for (const auto& [tp, cp] : {std::pair{2, 1}, std::pair{1, 2}, std::pair{1, 3}, {2, 2}}) {
        const int64_t kv_heads = model.kv_heads / tp;
        if (exchange == ContextExchange::AllToAll && kv_heads % cp != 0) continue;
        if (kSeqLen % (2 * cp) != 0) continue;
        SCOPED_TRACE(fmt::format("{}: tp {} cp {} exchange {}", name, tp, cp, int(exchange)));
        expect_same_training(run_documents(model, {.context_exchange = exchange}, tp, cp), one);
      }
    }
  }
}

TEST(DocumentMask, RecomputationAndSplitBackwardKeepTheBits) {
  for (const char* name : {"gpt2_dropout_tied", "llama"}) {
    const ModelSpec model = model_of(name);
    const Outcome want = run_documents(model, {});
    for (const Recompute recompute : {Recompute::Selective, Recompute::Full}) {
      for (const bool split : {false, true}) {
        const Way way{.recompute = recompute, .split_backward = split, .num_threads = 2};
        const Outcome got = run_documents(model, way);
        EXPECT_EQ(got.losses, want.losses);
        EXPECT_EQ(got.grads, want.grads);
      }
    }
  }
}

TEST(DocumentMask, OfOneDocumentIsNoMask) {
  for (const char* name : {"gpt2_tied", "llama"}) {
    const ModelSpec model = model_of(name);
    const Outcome want = run_stage(model, fastest_kernels(), 1, {});
    const Outcome got = run_stage(model, fastest_kernels(), 1, {.documents = {{0}, {0}, {0}}});
    EXPECT_EQ(got.losses, want.losses);
    EXPECT_EQ(got.grads, want.grads);
  }
}

// Other tokens in one document change no bit of the losses in the others.
TEST(DocumentMask, DocumentsDoNotSeeEachOther) {
  for (const char* name : {"gpt2_tied", "llama"}) {
    for (const int cp : {1, 2}) {
      const ModelSpec model = model_of(name);
      const auto token = [](int64_t t) { return int32_t((t * 7 + t * t) % kVocab); };
      const auto changed = [&](int64_t t) { return t >= 1 && t < 5 ? 36 - token(t) : token(t); };
      const Outcome want = run_documents(model, {.token = token}, 1, cp);
      const Outcome got = run_documents(model, {.token = changed}, 1, cp);
      for (int64_t t = 0; t < kSequences * kSeqLen; ++t) {
        const bool is_inside = t >= 1 && t < 5;
        if (is_inside) continue;
        EXPECT_EQ(got.losses[size_t(t)], want.losses[size_t(t)]) << name << " " << t;
      }
      EXPECT_NE(got.losses[4], want.losses[4]);
    }
  }
}

// A document behind another has the losses that it has at the start of a sequence. Without the mask
// it has not.
TEST(DocumentMask, APackedDocumentIsTheDocumentAlone) {
  constexpr int64_t kBegin = 5;
  const auto token = [](int64_t t) {
    const int64_t place = t < kSeqLen ? t - kBegin : t % kSeqLen;  // in the document
    return int32_t((place * place + 40) % kVocab);
  };
  for (const char* name : {"gpt2_tied", "llama"}) {
    for (const bool masked : {true, false}) {
      Way way{.token = token, .target = token};
      if (masked) way.documents = {{0, kBegin}, {0}, {0}};
      TestStage stage(model_of(name), fastest_kernels(), DType::F32, way);
      stage.forward();
      double difference = 0.0;
      for (int64_t i = 0; kBegin + i < kSeqLen; ++i) {
        const double packed = stage.losses()[size_t(kBegin + i)];
        difference = std::max(difference, std::abs(packed - stage.losses()[size_t(kSeqLen + i)]));
      }
      EXPECT_EQ(difference < 1e-5, masked) << name << " " << difference;
    }
  }
}

}  // namespace
}  // namespace trireme
