#include "program/check_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "program/check_data_parallel.h"
#include "program/check_joins.h"
#include "program/fold_units.h"
#include "program/lookahead.h"
#include "program/offload.h"
#include "program/replay.h"

namespace trireme {
namespace {

class RanksCheck {
 public:
  RanksCheck(const Schedule& schedule, const Mesh& mesh, const std::vector<RankPlan>& ranks)
      : schedule_(schedule), mesh_(mesh), ranks_(ranks) {}

  std::vector<Problem> run() && {
    check_peers();
    check_data();
    for (int stage = 0; stage < mesh_.pp; ++stage) check_rank(position_of(mesh_, {.pp = stage}));
    if (problems_.empty()) check_pipeline();
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

  // What follows looks at one pipeline: all others are the same.
  void check_peers() {
    for (const RankPlan& rank : ranks_) {
      const RankPlan& first = ranks_[size_t(position_of(mesh_, {.pp = rank.coords.pp}))];
      compare(rank, first, rank.program, first.program, false);
      compare(rank, first, rank.eval_program, first.eval_program, true);
      append(rank.position, check_offload(rank.program, num_pieces(rank)));
    }
  }

  static OffloadShape num_pieces(const RankPlan& rank) {
    OffloadShape result;
    for (const ChunkTables& chunk : rank.chunks) result.push_back(int(chunk.pieces.size()));
    return result;
  }

  // Pieces of an optimizer's state are each rank's own: shards differ in size.
  void compare(const RankPlan& rank, const RankPlan& first, const Program& program,
               const Program& of_first, bool is_evaluation) {
    const auto skip_pieces = [](const Program& of, size_t at) {
      while (at < of.size() && is_piece(of[at])) ++at;
      return at;
    };
    const auto text = [&](const Program& of, size_t at) {
      return at < of.size() ? to_string(of[at], schedule_.num_chunks) : std::string("the end");
    };
    for (size_t here = 0, there = 0;; ++here, ++there) {
      here = skip_pieces(program, here);
      there = skip_pieces(of_first, there);
      const bool is_over = here >= program.size() || there >= of_first.size();
      if (here >= program.size() && there >= of_first.size()) return;
      if (!is_over && program[here] == of_first[there]) continue;
      report("peers", rank.position, is_evaluation ? -1 : int(here),
             fmt::format("rank {} has {} at position {}{} where rank {} of the same stage has {}",
                         rank.position, text(program, here), here,
                         is_evaluation ? " of the evaluation" : "", first.position,
                         text(of_first, there)));
      return;
    }
  }

  void check_data() {
    const int64_t num_global = ranks_.front().microbatches.num_global;
    for (int stage = 0; stage < mesh_.pp; ++stage) {
      std::vector<int> count(size_t(num_global), 0);
      for (int dp = 0; dp < mesh_.dp; ++dp) {
        check_map(ranks_[size_t(position_of(mesh_, {.pp = stage, .dp = dp}))], count);
      }
      const auto odd = std::find_if(count.begin(), count.end(), [](int n) { return n != 1; });
      if (odd == count.end()) continue;
      report("data", position_of(mesh_, {.pp = stage}), -1,
             fmt::format("micro-batch {} of the step is taken {} times at pipeline rank {}",
                         odd - count.begin(), *odd, stage));
    }
  }

  void check_map(const RankPlan& rank, std::vector<int>& count) {
    const int m = schedule_.num_microbatches;
    const auto in_blocks = schedule_.placement == StagePlacement::Bidir
                               ? &MicrobatchMap::contiguous_halves
                               : &MicrobatchMap::contiguous;
    const MicrobatchMap wanted = rank.zero.shards_grads()
                                     ? MicrobatchMap::strided(m, mesh_.dp, rank.coords.dp)
                                     : in_blocks(m, mesh_.dp, rank.coords.dp);
    if (rank.microbatches.global_of != wanted.global_of) {
      report(
          "data", rank.position, -1,
          fmt::format("rank {} has other micro-batches than its place in the sum", rank.position));
    }
    for (const int64_t global : rank.microbatches.global_of) {
      if (global >= 0 && global < int64_t(count.size())) ++count[size_t(global)];
    }
  }

  std::vector<MicrobatchRange> ranges() const {
    std::vector<MicrobatchRange> result;
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
      result.push_back(microbatches_of(schedule_, chunk));
    }
    return result;
  }

  void check_rank(int position) {
    const RankPlan& rank = ranks_[size_t(position)];
    const DataParallelShape shape = data_parallel_shape(rank);
    append(position, check_gradients(rank.program, shape, ranges(), mesh_.dp));
    append(position, check_gathered(rank.program, shape));
    append(position, check_gathered(rank.eval_program, shape), true);
    for (Problem& problem : check_joins(schedule_, mesh_, ranks_, rank)) {
      problems_.push_back(std::move(problem));
    }
  }

  void check_lookahead() {
    std::vector<const Program*> programs;
    std::vector<int> num_ahead;
    for (int stage = 0; stage < mesh_.pp; ++stage) {
      const RankPlan& rank = ranks_[size_t(position_of(mesh_, {.pp = stage}))];
      programs.push_back(&rank.program);
      num_ahead.push_back(rank.num_ahead);
    }
    for (const RankPlan& rank : ranks_) {
      if (rank.num_ahead == num_ahead[size_t(rank.coords.pp)]) continue;
      report("peers", rank.position, -1,
             fmt::format("rank {} runs {} actions ahead where another of its stage runs {}",
                         rank.position, rank.num_ahead, num_ahead[size_t(rank.coords.pp)]));
    }
    for (Problem& problem : check_ahead(schedule_, programs, num_ahead)) {
      problem.rank = position_of(mesh_, {.pp = problem.rank});
      problems_.push_back(std::move(problem));
    }
  }

  // The rules of check(), for what is left when data parallelism is undone.
  void check_pipeline() {
    Schedule folded = schedule_;
    std::vector<std::vector<int>> positions;
    for (int stage = 0; stage < mesh_.pp; ++stage) {
      const int position = position_of(mesh_, {.pp = stage});
      const RankPlan& rank = ranks_[size_t(position)];
      FoldedProgram program = fold_units(rank.program, data_parallel_shape(rank));
      append(position, program.problems);
      folded.programs[size_t(stage)] = std::move(program.program);
      positions.push_back(std::move(program.positions));
    }
    if (!problems_.empty()) return;
    const RankPlan& first = ranks_.front();
    const MicrobatchMap map = first.zero.shards_grads()
                                  ? MicrobatchMap::contiguous(schedule_.num_microbatches)
                                  : first.microbatches;
    for (Problem& problem : check(folded, map)) {
      const bool has_rank = problem.rank >= 0 && problem.rank < int(positions.size());
      if (has_rank && problem.position >= 0) {
        const std::vector<int>& of_rank = positions[size_t(problem.rank)];
        problem.position = problem.position < int(of_rank.size())
                               ? of_rank[size_t(problem.position)]
                               : int(ranks_[size_t(problem.rank)].program.size());
      }
      if (has_rank) problem.rank = position_of(mesh_, {.pp = problem.rank});
      problems_.push_back(std::move(problem));
    }
  }

  // One micro-batch goes through all stages.
  void check_evaluation() {
    Schedule forward = schedule_;
    forward.num_microbatches = 1;
    std::vector<bool> is_run(size_t(num_stages(schedule_)), false);
    for (int stage = 0; stage < mesh_.pp; ++stage) {
      const int position = position_of(mesh_, {.pp = stage});
      const RankPlan& rank = ranks_[size_t(position)];
      FoldedProgram program = fold_units(rank.eval_program, data_parallel_shape(rank));
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
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check_ranks(const Schedule& schedule, const Mesh& mesh,
                                 const std::vector<RankPlan>& ranks) {
  return RanksCheck(schedule, mesh, ranks).run();
}

std::string explain(const Schedule& schedule, const std::vector<RankPlan>& ranks,
                    const Problem& problem) {
  Schedule all = schedule;
  all.programs.clear();
  for (const RankPlan& rank : ranks) all.programs.push_back(rank.program);
  return explain(all, problem);
}

}  // namespace trireme
