#include "program/check_joins.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

class JoinCheck {
 public:
  JoinCheck(const Schedule& schedule, const std::vector<const RankPlan*>& pipeline,
            const RankPlan& rank)
      : schedule_(schedule), pipeline_(pipeline), rank_(rank) {}

  std::vector<Problem> run() && {
    check_tied();
    check_directions();
    return std::move(problems_);
  }

 private:
  void report(std::string rule, int position, std::string message) {
    problems_.push_back({std::move(rule), rank_.position, position, std::move(message)});
  }

  bool is_tied_across_stages() const {
    return std::any_of(pipeline_.begin(), pipeline_.end(), [](const RankPlan* of) {
      return std::any_of(of->chunks.begin(), of->chunks.end(), holds_second_table);
    });
  }
  static bool holds_second_table(const ChunkTables& chunk) {
    return chunk.stage.has_head && !chunk.stage.has_embedding &&
           chunk.tables.grads.contains("embedding.tokens");
  }

  // If one rank holds both tables, a single join adds them.
  void check_tied() {
    const bool is_tied = is_tied_across_stages();
    int wanted = 0;
    bool holds_both = false;
    for (const ChunkTables& chunk : rank_.chunks) {
      wanted += is_tied && chunk.stage.has_embedding != chunk.stage.has_head ? 1 : 0;
      holds_both = holds_both || holds_second_table(chunk);
    }
    if (holds_both && wanted > 1) wanted = 1;
    int found = 0;
    bool is_joining = false;
    for (int i = 0; i < int(rank_.program.size()); ++i) {
      const Action& action = rank_.program[size_t(i)];
      const bool joins = joins_ranks(action.kind);
      const bool may_follow =
          may_follow_joins(action) ||
          (rank_.joins_directions_first && found == 0 && action.kind == ActionKind::ReduceGrad);
      if (is_joining && !joins && !may_follow) {
        report("tied", i,
               fmt::format("rank {} has {} after a join of gradients with rank {}", rank_.position,
                           to_string(action, schedule_.num_chunks), action.peer));
      }
      is_joining = is_joining || joins;
      if (action.kind != ActionKind::JoinTiedTable) continue;
      ++found;
      expect_tied_ends(i);
    }
    if (found == wanted) return;
    report("tied", -1,
           fmt::format("rank {} joins the gradients of a tied table {} times instead of {}",
                       rank_.position, found, wanted));
  }

  static bool holds_one_end(const ChunkTables& chunk) {
    return holds_second_table(chunk) || (chunk.stage.has_embedding && !chunk.stage.has_head);
  }

  // A join must name the first end that the rank has, and the rank that has the other end.
  void expect_tied_ends(int position) {
    const Action& join = rank_.program[size_t(position)];
    const auto has = [](const RankPlan& of, bool (*is_end)(const ChunkTables&)) {
      return std::any_of(of.chunks.begin(), of.chunks.end(), is_end);
    };
    const bool names_an_end = join.chunk >= 0 && join.chunk < int(rank_.chunks.size()) &&
                              holds_one_end(rank_.chunks[size_t(join.chunk)]) &&
                              join.peer < int(pipeline_.size());
    bool is_right = names_an_end;
    if (names_an_end) {
      const ChunkTables& chunk = rank_.chunks[size_t(join.chunk)];
      const RankPlan& peer = *pipeline_[size_t(join.peer)];
      const bool holds_both =
          has(rank_, holds_second_table) &&
          has(rank_, [](const ChunkTables& c) { return c.stage.has_embedding; });
      is_right = holds_both ? chunk.stage.has_embedding && join.peer == rank_.coords.pp
                            : join.peer != rank_.coords.pp && has(peer, holds_one_end);
    }
    if (is_right) return;
    report("tied", position,
           fmt::format("rank {} has {}, which does not join the two ends of a tied table",
                       rank_.position, to_string(join, schedule_.num_chunks)));
  }

  static bool may_follow_joins(const Action& action) {
    return action.kind == ActionKind::Step || action.kind == ActionKind::Validate ||
           is_of_piece(action.kind) || action.kind == ActionKind::FetchUnits ||
           action.kind == ActionKind::OffloadUnits || action.kind == ActionKind::Unshard ||
           action.kind == ActionKind::Reshard;
  }

  // Both holders of a stage must join its directions, in the same order and before a tied table is
  // joined.
  void check_directions() {
    const int mirror = int(pipeline_.size()) - 1 - rank_.coords.pp;
    std::vector<int> wanted;
    if (schedule_.placement == StagePlacement::Bidir) {
      wanted = rank_.coords.pp < mirror ? std::vector<int>{0, 1} : std::vector<int>{1, 0};
    }
    std::vector<int> found;
    for (int i = 0; i < int(rank_.program.size()); ++i) {
      const Action& action = rank_.program[size_t(i)];
      const bool is_tied = action.kind == ActionKind::JoinTiedTable;
      if (is_tied && found.size() < wanted.size()) {
        report("directions", i,
               fmt::format("rank {} joins a tied table before its directions", rank_.position));
      }
      if (action.kind != ActionKind::JoinDirections) continue;
      found.push_back(action.chunk);
      if (action.peer == mirror) continue;
      report("directions", i,
             fmt::format("rank {} joins a direction with rank {}; the mirrored one is {}",
                         rank_.position, action.peer, mirror));
    }
    if (found == wanted) return;
    report("directions", -1,
           fmt::format("rank {} joins {} directions instead of {}, or in another order than its "
                       "mirrored rank",
                       rank_.position, found.size(), wanted.size()));
  }

  const Schedule& schedule_;
  const std::vector<const RankPlan*>& pipeline_;
  const RankPlan& rank_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check_joins(const Schedule& schedule,
                                 const std::vector<const RankPlan*>& pipeline,
                                 const RankPlan& rank) {
  return JoinCheck(schedule, pipeline, rank).run();
}

}  // namespace trireme
