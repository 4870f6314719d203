#include "compile/trainer_kernels.h"

#include <gtest/gtest.h>

#include "graph/all_passes.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

struct PlacedLayer {
  ModelShard shard;
  StageShape shape;
  Graph placed;
  std::vector<OpWork> works;
};

PlacedLayer layer_of(ModelFamily family, int tp) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.d_model = 512;
  config.heads = 8;
  if (family == ModelFamily::Llama) config.kv_heads = 4;
  config.d_ff = 1536;
  config.vocab_size = 1024;
  config.seq_len = 128;
  const ModelSpec model = with_defaults(config, 0);
  const StageShape shape{.micro_sequences = 2, .compute = DType::BF16, .tp = tp};
  const ModelShard shard = shard_model(model, shape);
  const Graph placed = placed_graph(layer_graph(model, 0), shape);
  return {shard, shape, placed, op_works(placed, shard, shape)};
}

double flops_of(const OpWork& work) {
  double flops = 0.0;
  for (const Product& product : work.forward.products) flops += product.flops();
  return flops;
}

// Of q, k, v, o, gate, up and down these are k, o and up: pytorch/torchtitan, per-op selective
// checkpointing. Without a gate: k and o, because nothing needs the output of the last product.
TEST(TrainerKernels, EverySecondProductIsMadeAgainAndAttentionIsNot) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama}) {
    for (const int tp : {1, 2, 4}) {
      const auto [shard, shape, placed, works] = layer_of(family, tp);
      const std::vector<double> shares = shares_of_every_other_product(placed, shard);
      double again = 0.0;
      for (size_t i = 0; i < works.size(); ++i) {
        again += shares[i] * flops_of(works[i]);
        const OpKind kind = placed.ops[i].kind;
        const bool is_whole = kind == OpKind::Norm || kind == OpKind::Activation;
        EXPECT_TRUE(!is_whole || shares[i] == 1.0);
        EXPECT_TRUE(kind != OpKind::Attention || shares[i] == 0.0);
      }
      const double tokens = 2.0 * 128.0, width = 512.0;
      const bool has_gate = family == ModelFamily::Llama;
      const double keys = has_gate ? width / 2.0 : width;
      const double columns = keys + width + (has_gate ? 1536.0 : 0.0);
      EXPECT_NEAR(again / (2.0 * tokens * width * columns / tp), 1.0, 1e-12) << tp;
    }
  }
}

TEST(TrainerKernels, AWholeLayerIsMadeAgainUpToItsLastProduct) {
  const auto [shard, shape, placed, works] = layer_of(ModelFamily::Llama, 2);
  const std::vector<double> whole = shares_of_whole_layer(placed, false);
  const std::vector<double> early = shares_of_whole_layer(placed, true);
  double again = 0.0, all = 0.0;
  for (size_t i = 0; i < works.size(); ++i) {
    EXPECT_EQ(whole[i], 1.0);
    EXPECT_LE(early[i], 1.0);
    again += early[i] * flops_of(works[i]);
    all += flops_of(works[i]);
  }
  EXPECT_NEAR(all - again, 2.0 * 256.0 * 1536.0 * 512.0 / 2.0, 1.0);
}

// Kernels of single operations move more bytes, and make the same products.
TEST(TrainerKernels, OpsThatRunApartOnlyAddBytesAndLaunches) {
  const auto [shard, shape, placed, works] = layer_of(ModelFamily::Llama, 1);
  TrainerPractice practice;
  std::vector<OpWork> apart = works;
  run_ops_apart(placed, shard, shape, practice, apart);
  for (size_t i = 0; i < works.size(); ++i) {
    EXPECT_EQ(apart[i].forward.bytes, works[i].forward.bytes);
  }
  double before = 0.0;
  for (const bool norms : {false, true}) {
    practice.runs_ops_apart = true;
    practice.runs_norms_apart = norms;
    apart = works;
    run_ops_apart(placed, shard, shape, practice, apart);
    double bytes = 0.0;
    for (size_t i = 0; i < works.size(); ++i) {
      EXPECT_GE(apart[i].forward.bytes, works[i].forward.bytes);
      EXPECT_GE(apart[i].input_grad.bytes, works[i].input_grad.bytes);
      EXPECT_GE(apart[i].forward.calls, works[i].forward.calls);
      EXPECT_EQ(flops_of(apart[i]), flops_of(works[i]));
      bytes += apart[i].forward.bytes + apart[i].input_grad.bytes;
    }
    EXPECT_GT(bytes, before);
    before = bytes;
  }
}

// Products of one input that are made apart make the same FLOPs, and for each but the first a
// kernel reads two gradients of the input and writes their sum.
TEST(TrainerKernels, ProductsApartMakeTheSameFlopsAndAddTheirInputGradients) {
  const auto flops = [](const HalfWork& half) {
    double sum = 0.0;
    for (const Product& product : half.products) sum += product.flops();
    return sum;
  };
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama}) {
    for (const int tp : {1, 2, 4}) {
      const auto [shard, shape, placed, works] = layer_of(family, tp);
      TrainerPractice practice;
      practice.runs_products_apart = true;
      std::vector<OpWork> apart = works;
      run_ops_apart(placed, shard, shape, practice, apart);
      int num_sums = 0;
      for (size_t i = 0; i < works.size(); ++i) {
        for (const auto half : {&OpWork::forward, &OpWork::input_grad, &OpWork::weight_grad}) {
          EXPECT_DOUBLE_EQ(flops(apart[i].*half), flops(works[i].*half));
        }
        const size_t more = apart[i].forward.products.size() - works[i].forward.products.size();
        EXPECT_EQ(more,
                  placed.ops[i].kind == OpKind::Linear ? placed.ops[i].outputs.size() - 1 : 0);
        const double added = apart[i].input_grad.bytes - works[i].input_grad.bytes;
        EXPECT_DOUBLE_EQ(added, double(more) * 3.0 * 2.0 * 256.0 * 512.0);
        num_sums += int(more);
      }
      EXPECT_EQ(num_sums, family == ModelFamily::Llama ? 3 : 2);  // q, k, v; gate, up
    }
  }
}

}  // namespace
}  // namespace trireme
