#include "compile/tied_join.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "compile/compile_rank.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

struct TiedLayout {
  std::string stage_tp, stage_dp;
  int zero = 0, hsdp_shard = 0, servers = 0;
};

RunPlan tied_plan(const TiedLayout& layout) {
  RunConfig config;
  config.model.layers = 4;
  config.model.d_model = 64;
  config.model.heads = 4;
  config.model.vocab_size = 5003;
  config.model.seq_len = 8;
  config.data.source = DataSource::Synthetic;
  ParallelConfig& parallel = config.parallel;
  parallel.order = "tp,cp,dp,pp";
  parallel.pp = 2;
  parallel.tp = 4;
  parallel.dp = 12;
  parallel.stage_tp = layout.stage_tp;
  parallel.stage_dp = layout.stage_dp;
  parallel.zero = layout.zero;
  parallel.hsdp_shard = layout.hsdp_shard;
  if (layout.servers > 0) parallel.sync = GradSync::ParameterServer;
  if (layout.servers > 0) parallel.servers = layout.servers;
  config.batch.global_sequences = 24;
  config.batch.micro_sequences = 1;
  config.run.reproducible = Reproducible::Fixed;
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return *std::move(plan);
}

std::vector<TiedLayout> tied_layouts() {
  std::vector<TiedLayout> all;
  for (const char* stage_tp : {"1,2", "4,2", "4,4"}) {
    for (const char* stage_dp : {"1,1", "1,3", "2,3", "4,6", "6,4", "12,1", "4,4"}) {
      for (int zero = 0; zero <= 1; ++zero) all.push_back({stage_tp, stage_dp, zero});
      all.push_back({stage_tp, stage_dp, 1, 2});
      all.push_back({stage_tp, stage_dp, 2, 0, 3});
    }
  }
  for (TiedLayout& layout : all) {
    if (layout.hsdp_shard == 2 && layout.stage_dp.find('3') != std::string::npos) {
      layout.hsdp_shard = 1;
    }
  }
  return all;
}

// The ranks of a place, [group][piece].
std::vector<std::vector<std::vector<MeshCoords>>> holders_of(const RunPlan& plan,
                                                             const TiedJoin& join, int end) {
  std::vector<std::vector<std::vector<MeshCoords>>> ranks(size_t(join.num_groups));
  for (auto& group : ranks) group.resize(size_t(join.ends[size_t(end)].num_pieces()));
  for (int position = 0; position < plan.num_ranks(); ++position) {
    const MeshCoords coords = coords_of(plan.mesh, position);
    const std::optional<TiedShare> share = join.share_of(coords);
    if (share && share->end == end) {
      ranks.at(size_t(share->group)).at(size_t(share->piece)).push_back(coords);
    }
  }
  return ranks;
}

// In every group each place has the whole table, cut into the pieces of its ranks.
TEST(TiedJoin, EveryGroupHasTheWholeTableAtBothPlaces) {
  for (const TiedLayout& layout : tied_layouts()) {
    SCOPED_TRACE(layout.stage_tp + " " + layout.stage_dp + " zero " + std::to_string(layout.zero));
    const RunPlan plan = tied_plan(layout);
    const TiedJoin join = tied_join(plan).value();
    for (int end = 0; end < 2; ++end) {
      const TiedEnd& of = join.ends[size_t(end)];
      EXPECT_EQ(of.borders.front(), 0);
      EXPECT_EQ(of.borders.back(), plan.model.vocab_size * plan.model.d_model);
      for (const auto& group : holders_of(plan, join, end)) {
        for (const auto& ranks : group) EXPECT_EQ(ranks.size(), 1u);
      }
    }
  }
}

// Every element is summed in one pair, and nobody is in two pairs of a round.
TEST(TiedJoin, PairsSumEveryElementOnce) {
  for (const TiedLayout& layout : tied_layouts()) {
    SCOPED_TRACE(layout.stage_tp + " " + layout.stage_dp + " zero " + std::to_string(layout.zero));
    const TiedJoin join = tied_join(tied_plan(layout)).value();
    std::set<std::pair<int, int>> busy[2];
    int64_t begin = 0;
    for (const TiedPair& pair : join.pairs()) {
      EXPECT_EQ(pair.range.begin, begin);
      begin = pair.range.end();
      for (size_t end = 0; end < 2; ++end) {
        const TableRange piece = join.ends[end].piece(pair.pieces[end]);
        EXPECT_LE(piece.begin, pair.range.begin);
        EXPECT_GE(piece.end(), pair.range.end());
        EXPECT_TRUE(busy[end].emplace(pair.round, pair.pieces[end]).second) << "two in a round";
      }
    }
    EXPECT_EQ(begin, join.ends[0].borders.back());
  }
}

// The parts are those that the tables of the ranks say.
TEST(TiedJoin, PartsAreWhatTheRanksOwn) {
  for (const TiedLayout& layout : tied_layouts()) {
    SCOPED_TRACE(layout.stage_tp + " " + layout.stage_dp + " zero " + std::to_string(layout.zero));
    const RunPlan plan = tied_plan(layout);
    const TiedJoin join = tied_join(plan).value();
    for (int position = 0; position < plan.num_ranks(); ++position) {
      const RankPlan rank = stored_rank(plan, position);
      const TiedShare share = join.share_of(rank.coords).value();
      int64_t owned_count = 0;
      for (const OwnedParam& owned : rank.chunks.front().owned) {
        if (owned.name != "embedding.tokens") continue;
        owned_count = owned.count;
        const ParamLayout& layout_of = rank.chunks.front().layouts[owned.param];
        EXPECT_EQ(share.part.begin, layout_of.begin[0] * layout_of.global[1] + owned.first);
      }
      EXPECT_EQ(share.part.count, owned_count);
    }
  }
}

// Ranks of equal places make one pair each, with all that they own.
TEST(TiedJoin, EqualPlacesSumWholeParts) {
  for (int zero = 0; zero <= 2; ++zero) {
    const TiedJoin join = tied_join(tied_plan({"2,2", "3,3", zero})).value();
    EXPECT_EQ(join.num_groups, zero == 0 ? 3 : 1);
    for (const TiedPair& pair : join.pairs()) {
      EXPECT_EQ(pair.round, 0);
      EXPECT_EQ(pair.pieces[0], pair.pieces[1]);
      EXPECT_EQ(pair.range.count, join.ends[0].piece(pair.pieces[0]).count);
    }
    EXPECT_EQ(join.ends[0].sharing, 1);
  }
}

// Many ranks that sum with one need a round each; a part whose borders hardly
// differ from those of another one needs one with this part and one with each of its neighbours.
TEST(TiedJoin, ChainsOfPairsTakeFewRounds) {
  const auto rounds_of = [](const TiedLayout& layout) {
    int rounds = 0;
    for (const TiedPair& pair : tied_join(tied_plan(layout))->pairs()) {
      rounds = std::max(rounds, pair.round + 1);
    }
    return rounds;
  };
  EXPECT_EQ(rounds_of({"1,1", "12,1", 1}), 12);
  EXPECT_LE(rounds_of({"4,1", "1,4", 1}), 3);
  EXPECT_LE(rounds_of({"4,4", "3,4", 1}), 3);
}

// Without a second holder of a trained table nothing is summed.
TEST(TiedJoin, IsAbsentWhereOnePlaceHoldsBothEnds) {
  RunPlan plan = tied_plan({"1,1", "2,1"});
  plan.model.tied_head = false;
  EXPECT_FALSE(tied_join(plan).has_value());
}

}  // namespace
}  // namespace trireme
