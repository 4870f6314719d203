// No border between shards cuts a matrix that Muon updates.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "memory/newton_schulz_memory.h"
#include "schema/run_config.h"

namespace trireme {
namespace {

ModelSpec model_of(int64_t d_ff) {
  ModelConfig config;
  config.family = ModelFamily::Llama;
  config.layers = 6;
  config.d_model = 256;
  config.heads = 8;
  config.kv_heads = 2;
  config.d_ff = d_ff;
  config.vocab_size = 1000;
  config.seq_len = 16;
  return resolve_model(config, 0).value();
}

ChunkTables chunk_of(const ModelSpec& model, int tp, int tp_rank, int degree, int index,
                     int64_t bucket_bytes = 0) {
  StageShape shape{.tp = tp, .tp_rank = tp_rank};
  shape.optimizer_state.muon = true;
  const ZeroShape zero{2, degree, index};
  return chunk_tables(model, whole_model(model), shape, zero, zero, bucket_bytes);
}

// Returns the names of the matrices that a rank owns.
std::vector<std::string> matrices_of(const ChunkTables& chunk) {
  std::vector<std::string> names;
  for (const OwnedParam& owned : chunk.owned) {
    if (!owned.takes_muon) continue;
    EXPECT_EQ(owned.first, 0) << owned.name;
    EXPECT_EQ(owned.count, chunk.params[owned.param].shape.num_elements()) << owned.name;
    names.push_back(owned.name);
  }
  return names;
}

TEST(WholeMatrices, EachIsOwnedOnceAndOfItsPartsTheSameRankOwnsAll) {
  const ModelSpec model = model_of(24 * 33);  // ranks of tp have parts of different sizes
  for (const int64_t bucket_bytes : {int64_t{0}, int64_t{8} << 20}) {
    for (const int degree : {1, 2, 3, 8, 16}) {
      std::map<std::string, int> owners;
      for (int index = 0; index < degree; ++index) {
        const std::vector<std::string> names =
            matrices_of(chunk_of(model, 1, 0, degree, index, bucket_bytes));
        for (const std::string& name : names) ++owners[name];
        for (const int tp : {2, 8}) {
          const auto of_rank = [&](int rank) {
            return matrices_of(chunk_of(model, tp, rank, degree, index, bucket_bytes));
          };
          for (int rank = 1; rank < tp; ++rank) EXPECT_EQ(of_rank(rank), of_rank(0));
        }
      }
      EXPECT_EQ(owners.size(), size_t(6 * 7)) << degree;
      for (const auto& [name, count] : owners) EXPECT_EQ(count, 1) << name;
    }
  }
}

// Buckets round their borders up and down in turn, so that two ranks own nearly the same.
TEST(WholeMatrices, RanksOwnNearlyAsMuch) {
  const ModelSpec model = model_of(1024);
  for (const auto& [degree, most] : {std::pair(2, 1.2), std::pair(4, 1.6)}) {
    double total = 0.0, largest = 0.0;
    for (int index = 0; index < degree; ++index) {
      double own = 0.0;
      for (const OwnedParam& owned : chunk_of(model, 1, 0, degree, index).owned) {
        own += double(owned.count);
      }
      total += own;
      largest = std::max(largest, own);
    }
    EXPECT_LT(largest, most * total / degree) << degree;
  }
}

TEST(WholeMatrices, MatricesOfLayersAloneHaveNoSecondMoment) {
  const ChunkTables chunk = chunk_of(model_of(1024), 1, 0, 1, 0);
  for (const ParamSpec& param : chunk.params) {
    const bool is_muon = param.name.starts_with("layers.") && param.shape.rank() == 2;
    EXPECT_EQ(param.is_hidden_matrix, is_muon) << param.name;
    EXPECT_TRUE(chunk.tables.optimizer.contains("exp_avg/" + param.name));
    EXPECT_EQ(chunk.tables.optimizer.contains("exp_avg_sq/" + param.name), !is_muon);
  }
}

// A matrix with sides s <= l needs 5 (4 s^2 l + 2 s^3) FLOPs, whether it is wide or tall.
TEST(WholeMatrices, FlopsOfTheIterations) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>(64, 200), {200, 64}, {96, 96}}) {
    double flops = 0.0;
    for (const ProductExtents& product : newton_schulz_products(rows, cols)) {
      flops += 2.0 * double(product.m * product.n * product.k * product.count);
    }
    const double s = double(std::min(rows, cols)), l = double(std::max(rows, cols));
    EXPECT_EQ(flops, 5.0 * (4.0 * s * s * l + 2.0 * s * s * s));
  }
}

}  // namespace
}  // namespace trireme
