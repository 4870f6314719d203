#include "train/tied_groups.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "compile/tied_join.h"

namespace trireme {
namespace {

// What the rank owns must be what the others think that it owns.
void check_owned(const RankPlan& rank, const TiedShare& share) {
  TableRange owned;
  for (const ChunkTables& chunk : rank.chunks) {
    for (const OwnedParam& param : chunk.owned) {
      if (param.name != "embedding.tokens") continue;
      const ParamLayout& layout = chunk.layouts[param.param];
      owned = {layout.begin[0] * layout.global[1] + param.first, param.count};
    }
  }
  const bool agrees =
      owned.count == share.part.count && (owned.count == 0 || owned.begin == share.part.begin);
  TRIREME_CHECK(agrees, "the rank owns another part of the tied table");
}

int num_rounds(const std::vector<TiedPair>& pairs) {
  int rounds = 0;
  for (const TiedPair& pair : pairs) rounds = std::max(rounds, pair.round + 1);
  return rounds;
}

}  // namespace

TiedSum make_tied_sum(const RunPlan& plan, const RankPlan& rank, const MeshGroups& groups,
                      Algorithm algorithm) {
  const std::optional<TiedJoin> join = tied_join(plan);
  if (!join) return {{}, {}, algorithm};
  const std::optional<TiedShare> share = join->share_of(rank.coords);
  const std::vector<TiedPair> pairs = join->pairs();
  std::vector<TiedSum::Run> runs;
  for (int round = 0; round < num_rounds(pairs); ++round) {
    const auto own = std::find_if(pairs.begin(), pairs.end(), [&](const TiedPair& pair) {
      return share && pair.round == round && pair.pieces[size_t(share->end)] == share->piece;
    });
    // Ranks without a pair in this round make a group that nobody keeps.
    const int pair = int(own - pairs.begin());
    const int color = own == pairs.end() ? 0 : 1 + pair * join->num_groups + share->group;
    std::unique_ptr<Group> members = groups.pp().split(color, share ? share->end : 0, "tied");
    if (own == pairs.end()) continue;
    runs.push_back({std::move(members), own->range.begin - share->part.begin, own->range.count});
  }
  if (!share) return {std::move(runs), {}, algorithm};
  check_owned(rank, *share);
  const TiedEnd& end = join->ends[size_t(share->end)];
  const int color = rank.coords.dp % end.shards + end.shards * share->group;
  return {std::move(runs),
          {groups.dp().split(color, share->copy, "tied copies"), share->counts},
          algorithm};
}

}  // namespace trireme
