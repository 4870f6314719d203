#include "program/check_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "program/check_accumulate.h"
#include "program/check_data_parallel.h"
#include "program/check_joins.h"
#include "program/check_sum_tree.h"
#include "program/data_parallel.h"
#include "program/fold_lanes.h"
#include "program/lookahead.h"
#include "program/offload.h"
#include "program/pairs.h"
#include "program/replay.h"

namespace trireme {
namespace {

// Compares a rank with the representative rank of its stage.
class PeerCheck {
 public:
  PeerCheck(const Schedule& schedule, const Mesh& mesh, const RankPlan& rank,
            const RankPlan& of_stage)
      : schedule_(schedule), mesh_(mesh), rank_(rank), of_stage_(of_stage) {}

  std::vector<Problem> run() && {
    compare(rank_.program, of_stage_.program, false);
    compare(rank_.eval_program, of_stage_.eval_program, true);
    for (Problem& problem : check_offload(rank_.program, num_pieces())) {
      report(std::move(problem.rule), problem.position,
             fmt::format("rank {}: {}", rank_.position, problem.message));
    }
    const MicrobatchMap wanted =
        microbatches_of(rank_, schedule_, mesh_.dp_at(rank_.coords.pp), rank_.coords.dp);
    if (rank_.microbatches.global_of != wanted.global_of) {
      report("data", -1,
             fmt::format("rank {} does not have the micro-batches of its place in the sum",
                         rank_.position));
    }
    return std::move(problems_);
  }

 private:
  void report(std::string rule, int position, std::string message) {
    problems_.push_back({std::move(rule), rank_.position, position, std::move(message)});
  }

  OffloadShape num_pieces() const {
    OffloadShape result;
    for (const ChunkTables& chunk : rank_.chunks) result.push_back(int(chunk.pieces.size()));
    return result;
  }

  // Pieces of the optimizer state are not compared, because shards differ in size.
  void compare(const Program& program, const Program& of_stage, bool is_evaluation) {
    const auto skip_pieces = [](const Program& of, size_t at) {
      while (at < of.size() && is_of_piece(of[at].kind)) ++at;
      return at;
    };
    const auto text = [&](const Program& of, size_t at) {
      return at < of.size() ? to_string(of[at], schedule_.num_chunks) : std::string("the end");
    };
    for (size_t here = 0, there = 0;; ++here, ++there) {
      here = skip_pieces(program, here);
      there = skip_pieces(of_stage, there);
      const bool is_over = here >= program.size() || there >= of_stage.size();
      if (here >= program.size() && there >= of_stage.size()) return;
      if (!is_over && program[here] == of_stage[there]) continue;
      report("peers", is_evaluation ? -1 : int(here),
             fmt::format("rank {} has {} at position {}{} where rank {} of the same stage has {}",
                         rank_.position, text(program, here), here,
                         is_evaluation ? " of the evaluation" : "", of_stage_.position,
                         text(of_stage, there)));
      return;
    }
  }

  const Schedule& schedule_;
  const Mesh& mesh_;
  const RankPlan& rank_;
  const RankPlan& of_stage_;
  std::vector<Problem> problems_;
};

class RanksCheck {
 public:
  RanksCheck(const Schedule& schedule, const Mesh& mesh, const std::vector<RankPlan>& ranks,
             AccumulateMode mode)
      : schedule_(schedule), mesh_(mesh), ranks_(ranks), mode_(mode) {
    for (const RankPlan& rank : ranks_) by_position_[rank.position] = &rank;
    for (int stage = 0; stage < mesh_.pp; ++stage) {
      pipeline_.push_back(by_position_.at(position_of(mesh_, {.pp = stage})));
    }
  }

  std::vector<Problem> run() && {
    check_peers();
    check_data();
    for (const RankPlan* rank : pipeline_) check_rank(*rank);
    if (problems_.empty()) check_pipeline();
    if (problems_.empty() && mode_ == AccumulateMode::Layout) check_sums();
    if (problems_.empty()) check_lookahead();
    if (problems_.empty()) check_evaluation();
    return std::move(problems_);
  }

 private:
  void report(std::string rule, int rank, int position, std::string message) {
    problems_.push_back({std::move(rule), rank, position, std::move(message)});
  }
  void append(int rank, std::vector<Problem> more, bool is_evaluation = false) {
    for (Problem& problem : more) {
      report(std::move(problem.rule), rank, is_evaluation ? -1 : problem.position,
             fmt::format("rank {}{}: {}", rank, is_evaluation ? " (evaluation)" : "",
                         problem.message));
    }
  }

  // The checks after this one read only one pipeline, because all others are the same.
  void check_peers() {
    for (const RankPlan& rank : ranks_) {
      for (Problem& problem :
           check_peer(schedule_, mesh_, rank, *pipeline_[size_t(rank.coords.pp)])) {
        problems_.push_back(std::move(problem));
      }
    }
  }

  // Returns the micro-batches of a stage's ranks, [dp].
  std::vector<MicrobatchMap> maps_of(const RankPlan& first) const {
    std::vector<MicrobatchMap> maps;
    const int ranks = mesh_.dp_at(first.coords.pp);
    for (int dp = 0; dp < ranks; ++dp) {
      const auto found = by_position_.find(position_of(mesh_, {.pp = first.coords.pp, .dp = dp}));
      maps.push_back(found != by_position_.end() ? found->second->microbatches
                                                 : microbatches_of(first, schedule_, ranks, dp));
    }
    return maps;
  }

  void check_sums() {
    std::vector<std::vector<MicrobatchMap>> maps;
    for (const RankPlan* rank : pipeline_) maps.push_back(maps_of(*rank));
    problems_ = check_sum_tree(schedule_, pipeline_, maps);
  }

  void check_data() {
    for (const RankPlan* first : pipeline_) {
      std::vector<int> count(size_t(first->microbatches.num_global), 0);
      for (const MicrobatchMap& map : maps_of(*first)) {
        for (const int64_t global : map.global_of) {
          if (global >= 0 && global < int64_t(count.size())) ++count[size_t(global)];
        }
      }
      const auto odd = std::find_if(count.begin(), count.end(), [](int n) { return n != 1; });
      if (odd == count.end()) continue;
      report("data", first->position, -1,
             fmt::format("micro-batch {} of the step is taken {} times at pipeline rank {}",
                         odd - count.begin(), *odd, first->coords.pp));
    }
  }

  std::vector<MicrobatchRange> ranges(const RankPlan& rank) const {
    std::vector<MicrobatchRange> result;
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
      const MicrobatchRange of_lane = microbatches_of(schedule_, chunk);
      result.push_back({of_lane.first * rank.lanes.count, of_lane.count * rank.lanes.count});
    }
    return result;
  }

  void check_rank(const RankPlan& rank) {
    const int position = rank.position;
    const DataParallelShape shape = data_parallel_shape(rank);
    append(position, check_pairs(rank.program, position));
    append(position,
           check_gradients(rank.program, shape, ranges(rank), mesh_.dp_at(rank.coords.pp)));
    append(position, check_gathered(rank.program, shape));
    append(position, check_gathered(rank.eval_program, shape), true);
    for (Problem& problem : check_joins(schedule_, pipeline_, rank)) {
      problems_.push_back(std::move(problem));
    }
  }

  void check_lookahead() {
    std::vector<const Program*> programs;
    std::vector<int> num_ahead;
    for (const RankPlan* rank : pipeline_) {
      programs.push_back(&rank->program);
      num_ahead.push_back(rank->num_ahead);
    }
    for (const RankPlan& rank : ranks_) {
      if (rank.num_ahead == num_ahead[size_t(rank.coords.pp)]) continue;
      report("peers", rank.position, -1,
             fmt::format("rank {} runs {} actions ahead, but another rank of its stage runs {}",
                         rank.position, rank.num_ahead, num_ahead[size_t(rank.coords.pp)]));
    }
    for (Problem& problem : check_ahead(schedule_, programs, num_ahead)) {
      problem.rank = position_of(mesh_, {.pp = problem.rank});
      problems_.push_back(std::move(problem));
    }
  }

  // The micro-batches whose gradients the rank sums itself.
  static MicrobatchMap summed(const RankPlan& rank) {
    return rank.zero.shards_grads()
               ? MicrobatchMap::contiguous(int(rank.microbatches.global_of.size()))
               : rank.microbatches;
  }

  // Undoes the lanes of a rank. Slots of gradients belong to all its lanes, so they are checked
  // before.
  FoldedProgram one_lane(const RankPlan& rank, FoldedProgram program) {
    if (!mesh_.is_uneven()) return program;
    const auto count = int(rank.microbatches.global_of.size());
    const Schedule alone{.num_microbatches = count,
                         .num_chunks = schedule_.num_chunks,
                         .placement = schedule_.placement,
                         .programs = {program.program}};
    for (Problem& problem : check_accumulate(alone, summed(rank))) {
      if (problem.position >= 0) problem.position = program.positions[size_t(problem.position)];
      program.problems.push_back(std::move(problem));
    }
    return fold_lanes(std::move(program), rank.lanes);
  }

  // Checks the rules of check() with data parallelism undone.
  void check_pipeline() {
    Schedule folded = schedule_;
    std::vector<std::vector<int>> positions;
    for (int stage = 0; stage < mesh_.pp; ++stage) {
      const RankPlan& rank = *pipeline_[size_t(stage)];
      const int position = rank.position;
      FoldedProgram program = one_lane(rank, fold_units(rank.program, data_parallel_shape(rank)));
      append(position, program.problems);
      folded.programs[size_t(stage)] = std::move(program.program);
      positions.push_back(std::move(program.positions));
    }
    if (!problems_.empty()) return;
    const MicrobatchMap map = mesh_.is_uneven()
                                  ? MicrobatchMap::contiguous(schedule_.num_microbatches)
                                  : summed(*pipeline_.front());
    for (Problem& problem : check(folded, map)) {
      const bool has_rank = problem.rank >= 0 && problem.rank < int(positions.size());
      if (has_rank && problem.position >= 0) {
        const std::vector<int>& of_rank = positions[size_t(problem.rank)];
        problem.position = problem.position < int(of_rank.size())
                               ? of_rank[size_t(problem.position)]
                               : int(pipeline_[size_t(problem.rank)]->program.size());
      }
      if (has_rank) problem.rank = position_of(mesh_, {.pp = problem.rank});
      problems_.push_back(std::move(problem));
    }
  }

  // In an evaluation one micro-batch must go through all stages.
  void check_evaluation() {
    Schedule forward = schedule_;
    forward.num_microbatches = 1;
    std::vector<bool> is_run(size_t(num_stages(schedule_)), false);
    for (int stage = 0; stage < mesh_.pp; ++stage) {
      const RankPlan& rank = *pipeline_[size_t(stage)];
      const int position = rank.position;
      FoldedProgram program = fold_units(rank.eval_program, data_parallel_shape(rank));
      if (mesh_.is_uneven()) program = fold_lanes(std::move(program), rank.lanes);
      append(position, program.problems, true);
      for (const Action& action : program.program) {
        if (action.kind == ActionKind::F) {
          is_run[size_t(stage_of(schedule_, stage, action.chunk))] = true;
        }
      }
      forward.programs[size_t(stage)] = std::move(program.program);
    }
    for (size_t stage = 0; stage < is_run.size(); ++stage) {
      if (!is_run[stage]) report("units", -1, -1, fmt::format("no rank evaluates stage {}", stage));
    }
    if (!problems_.empty()) return;
    const StageGraph graph(forward);
    const Replayed replayed = replay(forward, graph, TransferRule::Rendezvous);
    if (replayed.complete) return;
    report("transfer", -1, -1, "the evaluation hangs: " + describe_stuck(forward, replayed));
  }

  const Schedule& schedule_;
  const Mesh& mesh_;
  const std::vector<RankPlan>& ranks_;
  AccumulateMode mode_;
  std::map<int, const RankPlan*> by_position_;
  std::vector<const RankPlan*> pipeline_;  // [pp]
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check_ranks(const Schedule& schedule, const Mesh& mesh,
                                 const std::vector<RankPlan>& ranks, AccumulateMode mode) {
  return RanksCheck(schedule, mesh, ranks, mode).run();
}

std::vector<Problem> check_peer(const Schedule& schedule, const Mesh& mesh, const RankPlan& rank,
                                const RankPlan& of_stage) {
  return PeerCheck(schedule, mesh, rank, of_stage).run();
}

std::string explain(const Schedule& schedule, const std::vector<RankPlan>& ranks,
                    const Problem& problem) {
  Schedule all = schedule;
  all.programs.clear();
  Problem shown = problem;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].position == problem.rank) shown.rank = int(i);
    all.programs.push_back(ranks[i].program);
  }
  return explain(all, shown);
}

}  // namespace trireme
