#include "reproduce/reproduce.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

// What the errors of a table, or of one of its parts, may be. A bound is tightened as soon as the
// prices reach a better one.
struct Bound {
  const char* name;
  const char* part;  // "": the whole table
  size_t num_rows;
  double mean_abs, max_abs;
};

constexpr Bound kBounds[] = {
    {"megatron-t1", "", 10, 0.04, 0.08},
    {"korthikanti-t5", "", 8, 0.025, 0.053},
    {"zero-bubble-t4", "zb-1p", 12, 0.03, 0.07},
    {"zero-bubble-t4", "1f1b", 12, 0.04, 0.08},
    {"zero-bubble-t4", "interleaved", 12, 0.03, 0.08},
    // The schedule that our search finds for the smallest model has a longer bubble than theirs.
    {"zero-bubble-t4", "zb-2p", 12, 0.05, 0.105},
    {"zero-bubble-t4", "", 48, 0.04, 0.105},
    {"zero-bubble-t5", "", 36, 0.0, 0.0},
    {"vtrain-multi", "3.6B", 26, 0.11, 0.475},
    {"vtrain-multi", "39.1B", 47, 0.09, 0.38},
    {"llm-foundry-a100", "", 139, 0.054, 0.30},
    {"llm-foundry-a100", "80GB", 61, 0.047, 0.295},
    {"llm-foundry-a100", "40GB", 78, 0.06, 0.30},
    // 30B with 8,192 tokens filled the memory of its devices.
    {"llm-foundry-h100", "", 52, 0.081, 0.29},
    {"dgxc-gpt3-h100", "", 5, 0.01, 0.015},
    {"torchtitan-llama", "", 12, 0.088, 0.125},
    {"torchtitan-llama", "A100", 6, 0.09, 0.112},
    {"torchtitan-llama", "H100", 6, 0.087, 0.125},
    {"other-runs", "", 41, 0.11, 0.295},
    {"other-runs", "Megatron-Core", 10, 0.036, 0.058},
    // Pipelines of DeepSpeed take longer than their parts for a reason that is not known.
    {"other-runs", "Megatron-DeepSpeed", 3, 0.23, 0.245},
    {"other-runs", "BLOOM", 20, 0.13, 0.295},
    {"other-runs", "fms-fsdp A100", 4, 0.04, 0.08},
    {"other-runs", "fms-fsdp H100", 3, 0.152, 0.187},
    {"other-runs", "GPT-NeoX", 1, 0.225, 0.225},
    {"nccl-all-reduce", "", 48, 0.06, 0.19},
    {"nccl-all-reduce", "A100", 44, 0.06, 0.19},
    {"nccl-all-reduce", "H100", 4, 0.02, 0.03},
    {"zero-t1", "", 54, 0.0, 0.0},
    {"lecture-8xa100", "", 4, 0.0, 0.0},
    {"lecture-models", "", 8, 0.0, 0.0},
    {"korthikanti-t2", "", 24, 0.0, 0.0},
    {"superpod", "", 12, 0.0, 0.0},
};

// What the layout that we would choose may cost more than the best of those that were measured.
constexpr double kMostRegret = 0.03;

void check_choices(const Reproduction& result) {
  if (!result.compares_layouts) return;
  for (const std::string& part : result.parts()) {
    const LayoutRegret regret = regret_of(result.part(part).rows);
    EXPECT_LE(regret.regret, kMostRegret)
        << result.name << " " << part << ": " << regret.chosen << " instead of " << regret.best;
  }
}

void check_bounds(const Reproduction& result) {
  bool is_bounded = false;
  for (const Bound& bound : kBounds) {
    if (result.name != bound.name) continue;
    is_bounded = true;
    const std::string part = bound.part;
    const ReproducedRows table = part.empty() ? result.table : result.part(part);
    EXPECT_EQ(table.rows.size(), bound.num_rows) << bound.name << " " << part;
    EXPECT_LE(table.errors().mean_abs, bound.mean_abs) << bound.name << " " << part;
    EXPECT_LE(table.errors().max_abs, bound.max_abs) << bound.name << " " << part;
  }
  EXPECT_TRUE(is_bounded) << result.name;
  EXPECT_LE(result.memory.errors().mean_abs, 0.06) << result.name;
  EXPECT_LE(result.memory.errors().max_abs, 0.15) << result.name;
}

void check_rows(const std::string& name, const ReproducedRows& table) {
  EXPECT_FALSE(table.quantity.empty()) << name;
  std::set<std::string> labels;
  for (const ReproducedRow& row : table.rows) {
    EXPECT_GT(row.measured, 0.0) << name;
    EXPECT_TRUE(labels.insert(row.row).second) << name << ": two rows " << row.row;
    if (!row.time) continue;
    EXPECT_EQ(row.time->step, row.predicted);
    EXPECT_GT(*row.constant, 0.0);
    EXPECT_GT(*row.roofline, 0.0);
  }
}

TEST(Reproduce, EveryTableKeepsItsBoundAndNamesItsSourceAndItsRows) {
  for (const std::string& name : reproduction_names()) {
    const Result<Reproduction> result = reproduce(name);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->name, name);
    EXPECT_FALSE(result->source.empty()) << name;
    check_rows(name, result->table);
    if (!result->memory.rows.empty()) check_rows(name, result->memory);
    check_bounds(*result);
    check_choices(*result);
  }
}

TEST(Reproduce, SuggestsTheNearestName) {
  const Result<Reproduction> refused = reproduce("megatron-t2");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
  EXPECT_NE(refused.error().message.find("did you mean 'megatron-t1'"), std::string::npos);
}

}  // namespace
}  // namespace trireme
