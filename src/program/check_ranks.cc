#include "program/check_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "program/check_data_parallel.h"
#include "program/fold_units.h"
#include "program/offload.h"
#include "program/replay.h"

namespace trireme {
namespace {

class Nothing {
 public:
  void action(int, size_t) {}
  void transfer(int, size_t, int, size_t) {}
};

class RanksCheck {
 public:
  RanksCheck(const Schedule& schedule, const Mesh& mesh, const std::vector<RankPlan>& ranks)
      : schedule_(schedule), mesh_(mesh), ranks_(ranks) {}

  std::vector<Problem> run() && {
    check_peers();
    check_data();
    for (int stage = 0; stage < mesh_.pp; ++stage) check_rank(position_of(mesh_, {.pp = stage}));
    if (problems_.empty()) check_pipeline();
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
    check_joins(rank);
  }

  bool is_tied_across_stages() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const RankPlan& rank) {
      return std::any_of(rank.chunks.begin(), rank.chunks.end(), holds_second_table);
    });
  }
  static bool holds_second_table(const ChunkTables& chunk) {
    return chunk.stage.has_head && !chunk.stage.has_embedding &&
           !chunk.tables.params.contains("head.weight");
  }

  // Where one rank holds both tables, one join adds them.
  void check_joins(const RankPlan& rank) {
    const bool is_tied = is_tied_across_stages();
    int wanted = 0;
    bool holds_both = false;
    for (const ChunkTables& chunk : rank.chunks) {
      wanted += is_tied && chunk.stage.has_embedding != chunk.stage.has_head ? 1 : 0;
      holds_both = holds_both || holds_second_table(chunk);
    }
    if (holds_both && wanted > 1) wanted = 1;
    int found = 0;
    bool is_joining = false;
    for (int i = 0; i < int(rank.program.size()); ++i) {
      const Action& action = rank.program[size_t(i)];
      const bool joins = action.peer >= 0 && (action.kind == ActionKind::ReduceGrad ||
                                              action.kind == ActionKind::SumGrad);
      if (is_joining && !joins && !may_follow_joins(action)) {
        report("tied", rank.position, i,
               fmt::format("rank {} has {} behind a join of gradients with rank {}", rank.position,
                           to_string(action, schedule_.num_chunks), action.peer));
      }
      is_joining = is_joining || joins;
      if (!joins || action.kind != ActionKind::ReduceGrad) continue;
      ++found;
      expect_tied_ends(rank, i);
    }
    check_directions(rank);
    if (found == wanted) return;
    report("tied", rank.position, -1,
           fmt::format("rank {} joins the gradients of a tied table {} times instead of {}",
                       rank.position, found, wanted));
  }

  static bool holds_one_end(const ChunkTables& chunk) {
    return holds_second_table(chunk) || (chunk.stage.has_embedding && !chunk.stage.has_head);
  }

  // The join names the first end that the rank has, and who has the other.
  void expect_tied_ends(const RankPlan& rank, int position) {
    const Action& join = rank.program[size_t(position)];
    const auto has = [](const RankPlan& of, bool (*is_end)(const ChunkTables&)) {
      return std::any_of(of.chunks.begin(), of.chunks.end(), is_end);
    };
    const bool names_an_end = join.chunk >= 0 && join.chunk < int(rank.chunks.size()) &&
                              holds_one_end(rank.chunks[size_t(join.chunk)]) &&
                              join.peer < mesh_.pp;
    bool is_right = names_an_end;
    if (names_an_end) {
      const ChunkTables& chunk = rank.chunks[size_t(join.chunk)];
      const RankPlan& peer = ranks_[size_t(position_of(mesh_, {.pp = join.peer}))];
      const bool holds_both = has(rank, holds_second_table) &&
                              has(rank, [](const ChunkTables& c) { return c.stage.has_embedding; });
      is_right = holds_both ? chunk.stage.has_embedding && join.peer == rank.coords.pp
                            : join.peer != rank.coords.pp && has(peer, holds_one_end);
    }
    if (is_right) return;
    report("tied", rank.position, position,
           fmt::format("rank {} has {}, which is no join of the two ends of a tied table",
                       rank.position, to_string(join, schedule_.num_chunks)));
  }

  static bool may_follow_joins(const Action& action) {
    return is_piece(action) || action.kind == ActionKind::Step ||
           action.kind == ActionKind::Validate || action.kind == ActionKind::Unshard ||
           action.kind == ActionKind::Reshard;
  }

  // Both holders of a stage join its directions, in one order and before a tied table is joined.
  void check_directions(const RankPlan& rank) {
    const int mirror = mesh_.pp - 1 - rank.coords.pp;
    std::vector<int> wanted;
    if (schedule_.placement == StagePlacement::Bidir) {
      wanted = rank.coords.pp < mirror ? std::vector<int>{0, 1} : std::vector<int>{1, 0};
    }
    std::vector<int> found;
    for (int i = 0; i < int(rank.program.size()); ++i) {
      const Action& action = rank.program[size_t(i)];
      const bool is_tied = action.kind == ActionKind::ReduceGrad && action.peer >= 0;
      if (is_tied && found.size() < wanted.size()) {
        report("directions", rank.position, i,
               fmt::format("rank {} joins a tied table before its directions", rank.position));
      }
      if (action.kind != ActionKind::SumGrad || action.peer < 0) continue;
      found.push_back(action.chunk);
      if (action.peer == mirror) continue;
      report("directions", rank.position, i,
             fmt::format("rank {} joins a direction with rank {}; the mirrored one is {}",
                         rank.position, action.peer, mirror));
    }
    if (found == wanted) return;
    report("directions", rank.position, -1,
           fmt::format("rank {} joins {} directions instead of {}, or in another order than its "
                       "mirrored rank",
                       rank.position, found.size(), wanted.size()));
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
    Nothing nothing;
    const Replayed replayed =
        Replay<Nothing>(forward, graph, TransferRule::Rendezvous, nothing).run();
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
