#include "compile/rank_classes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "base/file.h"
#include "planner/make_plan.h"
#include "predict/predict.h"
#include "program/check_ranks.h"
#include "program/make_schedule.h"
#include "schema/run_config_validate.h"

namespace trireme {
namespace {

// No size divides another, so tp cuts the vocabulary and the hidden units unevenly, and dp cuts the
// matrices unevenly.
RunConfig uneven_run(ModelFamily family, bool is_tied) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 9;
  config.model.d_model = 96;
  config.model.heads = config.model.kv_heads = 8;
  config.model.d_ff = family == ModelFamily::Moe ? 96 : 250;
  config.model.vocab_size = 1001;
  config.model.seq_len = 32;
  config.model.tied_head = is_tied;
  if (family == ModelFamily::Moe) {
    config.model.experts = 8;
    config.model.top_k = 2;
  }
  config.batch.micro_sequences = 1;
  config.run.threads_per_rank = 1;
  config.checkpoint.every = 10;  // some ranks have a buffer for what they save
  return config;
}

void for_each_mesh(int most_ranks, const std::function<void(const Mesh&)>& visit) {
  for (int tp = 1; tp <= most_ranks; ++tp) {
    for (int cp = 1; tp * cp <= most_ranks; ++cp) {
      for (int pp = 1; tp * cp * pp <= most_ranks; ++pp) {
        for (int dp = 1; tp * cp * pp * dp <= most_ranks; ++dp) {
          for (int ep = 1; ep <= dp * cp; ++ep) {
            const bool is_nested = cp % ep == 0 || ep % cp == 0;
            if (dp * cp % ep == 0 && is_nested) visit(Mesh{tp, cp, pp, dp, ep});
          }
        }
      }
    }
  }
}

Hardware hardware_of(int ranks_per_node) {
  Hardware hardware;
  hardware.fp32_flops = hardware.bf16_flops = 1e11;
  hardware.memory_bytes_per_s = 1e10;
  hardware.set_nodes(ranks_per_node, {1e-6, 5e9}, {3e-6, 1e9});
  return hardware;
}

std::string text_of(const MemoryBytes& memory) {
  std::string text = fmt::format("arena {} peak {}", memory.arena_bytes, memory.peak_bytes);
  for (const int64_t bytes : memory.class_bytes) text += fmt::format(" {}", bytes);
  return text;
}

// Prints the program without what differs by rank: the offload pieces of its optimizer state.
std::string program_of(const RankPlan& rank) {
  return to_string(rank.program, int(rank.chunks.size())) + "|" +
         to_string(rank.eval_program, int(rank.chunks.size()));
}

std::string text_of(const AxisBytes& traffic) {
  std::string text;
  for (const auto& [axis, bytes] : traffic) text += fmt::format("{} {} ", axis, bytes);
  return text;
}

// Every rank is in one class, and the class agrees with the plan of each of its ranks.
void expect_classes_are_their_ranks(const RunPlan& plan) {
  const std::vector<RankPlan> ranks = rank_plans(plan);
  ASSERT_EQ(ranks.size(), plan.class_of.size());
  std::map<int, int> count, first;
  for (const RankPlan& rank : ranks) {
    const int alike = plan.class_of[size_t(rank.position)];
    ++count[alike];
    first.try_emplace(alike, rank.position);
    const RankPlan& of_class = ranks[size_t(plan.classes[size_t(alike)].first)];
    EXPECT_EQ(text_of(plan.class_at(rank.position).memory), text_of(rank.memory))
        << "rank " << rank.position;
    EXPECT_EQ(program_of(rank), program_of(of_class)) << "rank " << rank.position;
    EXPECT_EQ(rank.coords.pp, of_class.coords.pp);
  }
  ASSERT_EQ(count.size(), plan.classes.size());
  for (const auto& [alike, ranks_of_class] : count) {
    EXPECT_EQ(ranks_of_class, plan.classes[size_t(alike)].num_ranks);
    EXPECT_EQ(first[alike], plan.classes[size_t(alike)].first);
  }
  const std::vector<Problem> problems = check_ranks(plan.schedule, plan.mesh, ranks, plan.mode);
  EXPECT_TRUE(problems.empty()) << explain(plan.schedule, ranks, problems.front());
  // Nodes of one, two or three ranks, which may be uneven, and one node.
  for (const int ranks_per_node : {1 + plan.num_ranks() % 3, 64}) {
    const Predictions predictions = predict_ranks(plan, hardware_of(ranks_per_node));
    int predicted = 0;
    for (const PredictedClass& alike : predictions.classes) predicted += alike.num_ranks;
    EXPECT_EQ(predicted, plan.num_ranks());
    for (const RankPlan& rank : ranks) {
      EXPECT_EQ(text_of(predictions.at(rank.position).traffic),
                text_of(predict_traffic(plan, rank, ranks_per_node)))
          << "rank " << rank.position << ", " << ranks_per_node << " ranks on a node";
      const int alike = predictions.class_of[size_t(rank.position)];
      EXPECT_EQ(plan.class_of[size_t(predictions.classes[size_t(alike)].first)],
                plan.class_of[size_t(rank.position)]);
    }
  }
}

struct Layout {
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int zero;
  OffloadChoice offload = OffloadChoice::None;
  bool is_mesh_reproducible = false;
};

TEST(RankClasses, SayOfEveryRankWhatItsOwnPlanSaysOnEveryMeshOfEightRanks) {
  const char* const orders[] = {"tp,cp,pp,dp", "tp,cp,dp,pp", "dp,pp,cp,tp", "pp,dp,tp,cp"};
  int num_plans = 0;
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    for_each_mesh(8, [&](const Mesh& mesh) {
      if (mesh.ep > 1 && family != ModelFamily::Moe) return;
      // All layouts of all meshes would take too long, so each mesh is tested with some of them.
      const Layout layouts[] = {{ScheduleKind::OneFOneB, 0},
                                {ScheduleKind::ZbH1, 1},
                                {ScheduleKind::OneFOneB, 2},
                                {ScheduleKind::OneFOneB, 3},
                                {ScheduleKind::Dualpipe, 1},
                                {ScheduleKind::Interleaved, 3},
                                {ScheduleKind::ZbV, 2},
                                {ScheduleKind::OneFOneB, 1, OffloadChoice::Optimizer},
                                {ScheduleKind::OneFOneB, 2, OffloadChoice::All},
                                {ScheduleKind::OneFOneB, 1, OffloadChoice::None, true}};
      for (size_t i = 0; i < std::size(layouts); ++i) {
        const Layout& layout = layouts[i];
        if (mesh.dp == 1 && layout.zero > 1) continue;
        if ((i + size_t(mesh.tp + mesh.cp + mesh.pp + mesh.dp + mesh.ep)) % 3 != 0) continue;
        RunConfig config = uneven_run(family, mesh.dp % 2 == 0);
        config.parallel.tp = mesh.tp;
        config.parallel.cp = mesh.cp;
        config.parallel.pp = mesh.pp;
        config.parallel.dp = mesh.dp;
        config.parallel.ep = mesh.ep;
        config.parallel.order = orders[size_t(num_plans) % std::size(orders)];
        config.parallel.zero = layout.zero;
        config.parallel.sequence = mesh.tp > 1 && !layout.is_mesh_reproducible;
        config.parallel.schedule = mesh.pp > 1 ? layout.schedule : ScheduleKind::OneFOneB;
        config.memory.offload = layout.offload;
        config.memory.offload_buffer_bytes = 1 << 16;
        if (layout.is_mesh_reproducible) config.run.reproducible = Reproducible::Mesh;
        config.batch.global_sequences = 2 * mesh.pp * mesh.dp;
        if (!validate(config).empty()) continue;
        const Result<RunPlan> plan = make_plan(config, {});
        if (!plan.ok()) continue;
        SCOPED_TRACE(fmt::format("family {} tp {} cp {} pp {} dp {} ep {} {} {} zero {} offload {}",
                                 int(family), mesh.tp, mesh.cp, mesh.pp, mesh.dp, mesh.ep,
                                 config.parallel.order, name_of(layout.schedule), layout.zero,
                                 name_of(layout.offload)));
        expect_classes_are_their_ranks(*plan);
        ++num_plans;
      }
    });
  }
  EXPECT_GT(num_plans, 150);
}

TEST(RankClasses, HoldForServersAndForCopiesOfShards) {
  for (const int servers : {0, 1, 3}) {
    RunConfig config = uneven_run(ModelFamily::Gpt2, true);
    config.parallel.dp = 4;
    config.batch.global_sequences = 8;
    if (servers > 0) {
      config.parallel.sync = GradSync::ParameterServer;
      config.parallel.servers = servers;
    } else {
      config.parallel.zero = 3;
      config.parallel.hsdp_shard = 2;
    }
    const Result<RunPlan> plan = make_plan(config, {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    SCOPED_TRACE(servers);
    expect_classes_are_their_ranks(*plan);
  }
}

RunConfig llama3_405b(const Mesh& mesh, int zero) {
  RunConfig config;
  config.model.family = ModelFamily::Llama;
  config.model.layers = 126;
  config.model.d_model = 16384;
  config.model.heads = 128;
  config.model.kv_heads = 8;
  config.model.d_ff = 53248;
  config.model.vocab_size = 128256;
  config.model.seq_len = 8192;
  config.model.tied_head = false;
  config.precision.compute = ComputeChoice::Bf16;
  config.parallel.tp = mesh.tp;
  config.parallel.cp = mesh.cp;
  config.parallel.pp = mesh.pp;
  config.parallel.dp = mesh.dp;
  config.parallel.zero = zero;
  config.parallel.sequence = true;
  config.run.threads_per_rank = 1;
  config.batch.micro_sequences = 1;
  config.batch.global_sequences = 16 * mesh.dp;
  return config;
}

// Takes about one second on an idle machine; tests share theirs, so the limit is higher.
TEST(RankClasses, PlanTwentyFourThousandRanksInSeconds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a figure of the release build";
#endif
  for (const Mesh& mesh : {Mesh{8, 1, 16, 192, 1}, Mesh{8, 16, 16, 12, 1}}) {
    for (const int zero : {2, 3}) {
      const auto begin = std::chrono::steady_clock::now();
      const Result<RunPlan> plan = make_plan(llama3_405b(mesh, zero), {});
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      const Predictions predictions = predict_ranks(*plan, hardware_of(8));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      EXPECT_LT(took.count(), 10.0);
      EXPECT_LT(predictions.classes.size(), 1500u);
      EXPECT_EQ(plan->num_ranks(), 24576);
      // Ranks far from the first of their class still have the memory of the class.
      for (const int position : {1, 127, 5000, 16385, 24575}) {
        const RankPlan rank = rank_plan(*plan, position);
        EXPECT_EQ(text_of(plan->class_at(position).memory), text_of(rank.memory));
        EXPECT_EQ(text_of(predictions.at(position).traffic),
                  text_of(predict_traffic(*plan, rank, 8)));
      }
    }
  }
}

}  // namespace
}  // namespace trireme
