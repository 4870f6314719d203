#include "program/check_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/replay.h"
#include "program/stage_graph.h"

namespace trireme {
namespace {

// Positions of F, B and W of one (chunk, micro-batch) in their rank's list; -1: missing.
struct Spots {
  int f = -1;
  int b = -1;
  int w = -1;
};

class OrderCheck {
 public:
  explicit OrderCheck(const Schedule& schedule) : schedule_(schedule), graph_(schedule) {}

  std::vector<Problem> run() {
    for (int rank = 0; rank < schedule_.num_ranks; ++rank) {
      check_rank(rank);
      if (problems_.size() > kEnough) break;
    }
    return std::move(problems_);
  }

 private:
  static constexpr size_t kEnough = 100;

  Spots& spots(int chunk, int microbatch) {
    return spots_[static_cast<size_t>(chunk) * schedule_.num_microbatches + microbatch];
  }
  void report(std::string rule, int rank, int position, std::string message) {
    problems_.push_back({std::move(rule), rank, position, std::move(message)});
  }
  std::string name(std::string_view kind, int chunk, int microbatch) const {
    return schedule_.num_chunks > 1 ? fmt::format("{}{}.{}", kind, microbatch, chunk)
                                    : fmt::format("{}{}", kind, microbatch);
  }

  void check_rank(int rank) {
    spots_.assign(static_cast<size_t>(schedule_.num_chunks) * schedule_.num_microbatches, {});
    const Program& program = schedule_.programs[rank];
    for (int position = 0; position < static_cast<int>(program.size()); ++position) {
      count(rank, position, program[position]);
    }
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
      const MicrobatchRange range = microbatches_of(schedule_, chunk);
      for (int k = range.first; k < range.first + range.count; ++k) {
        check_missing(rank, chunk, k);
        check_local_order(rank, chunk, k);
      }
    }
    check_step(rank);
  }

  void count(int rank, int position, const Action& action) {
    const auto put = [&](int& spot, std::string_view kind, int chunk, int microbatch) {
      if (spot >= 0) {
        report("R1", rank, position,
               fmt::format("rank {} has {} twice, at positions {} and {}", rank,
                           name(kind, chunk, microbatch), spot, position));
      }
      spot = position;
    };
    const int chunk_b = action.kind == ActionKind::FB ? action.chunk_b : action.chunk;
    const int k_b = action.kind == ActionKind::FB ? action.microbatch_b : action.microbatch;
    if (!computes(action.kind)) return;
    if (action.kind == ActionKind::F || action.kind == ActionKind::FB) {
      put(spots(action.chunk, action.microbatch).f, "F", action.chunk, action.microbatch);
    }
    if (action.kind == ActionKind::F) return;
    if (action.kind != ActionKind::W) put(spots(chunk_b, k_b).b, "B", chunk_b, k_b);
    if (action.kind != ActionKind::B) put(spots(chunk_b, k_b).w, "W", chunk_b, k_b);
    if (action.kind == ActionKind::FB && action.microbatch == k_b) {
      report("R6", rank, position,
             fmt::format("the overlapped pair {} has forward and backward of one micro-batch: the "
                         "backward depends on the forward",
                         to_string(action, schedule_.num_chunks)));
    }
  }

  void check_missing(int rank, int chunk, int k) {
    const Spots& here = spots(chunk, k);
    const auto missing = [&](int spot, std::string_view kind) {
      if (spot >= 0) return;
      report("R1", rank, -1,
             fmt::format("rank {} (stage {}) never runs {}", rank, graph_.stage(rank, chunk),
                         name(kind, chunk, k)));
    };
    missing(here.f, "F");
    missing(here.b, "B");
    missing(here.w, "W");
  }

  void check_local_order(int rank, int chunk, int k) {
    const Spots& here = spots(chunk, k);
    const auto after = [&](std::string_view rule, int later, std::string_view later_kind,
                           int later_chunk, int earlier, std::string_view earlier_kind,
                           int earlier_chunk) {
      if (later < 0 || earlier < 0 || later >= earlier) return;
      report(std::string(rule), rank, later,
             fmt::format("rank {} runs {} (position {}) before {} (position {}), which it needs",
                         rank, name(later_kind, later_chunk, k), later,
                         name(earlier_kind, earlier_chunk, k), earlier));
    };
    after("R3", here.b, "B", chunk, here.f, "F", chunk);
    after("R4", here.w, "W", chunk, here.b, "B", chunk);
    // The turning point of a V: two neighbouring stages are on the same rank.
    if (const StagePlace next = graph_.next(rank, chunk); next.exists() && next.rank == rank) {
      const Spots& there = spots(next.chunk, k);
      after("R2", there.f, "F", next.chunk, here.f, "F", chunk);
      after("R3", here.b, "B", chunk, there.b, "B", next.chunk);
    }
  }

  // R7 and R8: an action that reads finished gradients must come after the last W.
  void check_step(int rank) {
    const Program& program = schedule_.programs[rank];
    std::vector<int> last_w(schedule_.num_chunks, -1);
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
      for (int k = 0; k < schedule_.num_microbatches; ++k) {
        last_w[chunk] = std::max(last_w[chunk], spots(chunk, k).w);
      }
    }
    const int last_of_all = *std::max_element(last_w.begin(), last_w.end());
    for (int position = 0; position < static_cast<int>(program.size()); ++position) {
      const Action& action = program[position];
      const bool steps = action.kind == ActionKind::Step || action.kind == ActionKind::StepPiece;
      if (steps && position < last_of_all) {
        report("R7", rank, position,
               fmt::format("rank {} steps at position {}, before its last weight gradient at {}",
                           rank, position, last_of_all));
      }
      if (action.kind != ActionKind::ReduceGrad && action.kind != ActionKind::JoinTiedTable)
        continue;
      const int needed =
          action.microbatch >= 0 ? spots(action.chunk, action.microbatch).w : last_w[action.chunk];
      if (position > needed) continue;
      report(
          action.kind == ActionKind::JoinTiedTable ? "R8" : "R7", rank, position,
          fmt::format("rank {} reduces chunk {} at position {}, before the weight gradient at {}",
                      rank, action.chunk, position, needed));
    }
  }

  const Schedule& schedule_;
  StageGraph graph_;
  std::vector<Spots> spots_;  // [chunk, micro-batch] of the checked rank
  std::vector<Problem> problems_;
};

// Why the next action of a blocked rank waits: the other rank, and the reason as text.
struct Wait {
  int rank = -1;
  std::string text;
};

bool stands_before(const Program& program, size_t position, ActionKind half, int chunk, int k) {
  for (size_t i = position; i < program.size(); ++i) {
    const Action& action = program[i];
    const bool is_pair = action.kind == ActionKind::FB;
    const bool is_f = half == ActionKind::F;
    const bool runs_half =
        is_f ? action.kind == ActionKind::F || is_pair
             : action.kind == ActionKind::B || action.kind == ActionKind::BW || is_pair;
    if (!runs_half) continue;
    const bool is_b_of_pair = is_pair && !is_f;
    if ((is_b_of_pair ? action.chunk_b : action.chunk) == chunk &&
        (is_b_of_pair ? action.microbatch_b : action.microbatch) == k) {
      return true;
    }
  }
  return false;
}

Wait wait_of(const Schedule& schedule, const StageGraph& graph, const Replayed& stuck, int rank) {
  const Action& action = schedule.programs[rank][stuck.position[rank]];
  const auto blocked_by = [&](StagePlace place, ActionKind half, int k) {
    return place.exists() && stands_before(schedule.programs[place.rank],
                                           stuck.position[place.rank], half, place.chunk, k);
  };
  const auto wait = [&](StagePlace place, std::string_view half, int k) -> Wait {
    return {place.rank,
            fmt::format("rank {} at position {} ({}) waits for {}{} of stage {} on rank {}", rank,
                        stuck.position[rank], to_string(action, schedule.num_chunks), half, k,
                        graph.stage(place.rank, place.chunk), place.rank)};
  };
  const bool is_pair = action.kind == ActionKind::FB;
  if (action.kind == ActionKind::F || is_pair) {
    const StagePlace previous = graph.previous(rank, action.chunk);
    if (blocked_by(previous, ActionKind::F, action.microbatch)) {
      return wait(previous, "F", action.microbatch);
    }
  }
  const int chunk_b = is_pair ? action.chunk_b : action.chunk;
  const int k_b = is_pair ? action.microbatch_b : action.microbatch;
  return wait(graph.next(rank, chunk_b), "B", k_b);
}

}  // namespace

std::vector<Problem> check_shape(const Schedule& schedule) {
  std::vector<Problem> problems;
  if (schedule.num_ranks < 1 || schedule.num_chunks < 1 || schedule.num_microbatches < 1 ||
      static_cast<int>(schedule.programs.size()) != schedule.num_ranks) {
    problems.push_back({"R1", -1, -1,
                        fmt::format("{} programs for {} ranks, {} chunks and {} micro-batches",
                                    schedule.programs.size(), schedule.num_ranks,
                                    schedule.num_chunks, schedule.num_microbatches)});
    return problems;
  }
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    const Program& program = schedule.programs[rank];
    for (size_t position = 0; position < program.size(); ++position) {
      const Action& action = program[position];
      const bool needs_microbatch = computes(action.kind) || is_transfer(action.kind);
      const auto fits = [&](int chunk, int microbatch) {
        if (chunk < 0 || chunk >= schedule.num_chunks) return false;
        return microbatches_of(schedule, chunk).contains(microbatch) ||
               (!needs_microbatch && microbatch == -1);
      };
      const bool is_bound = needs_microbatch || action.kind == ActionKind::ReduceGrad ||
                            action.kind == ActionKind::JoinTiedTable;
      bool ok = !is_bound || fits(action.chunk, action.microbatch);
      if (action.kind == ActionKind::FB) ok = ok && fits(action.chunk_b, action.microbatch_b);
      if (ok) continue;
      problems.push_back({"R1", rank, static_cast<int>(position),
                          fmt::format("rank {} has no {} (chunks 0..{}, micro-batches 0..{})", rank,
                                      to_string(action, 2), schedule.num_chunks - 1,
                                      schedule.num_microbatches - 1)});
    }
  }
  return problems;
}

std::vector<Problem> check_order(const Schedule& schedule) { return OrderCheck(schedule).run(); }

std::vector<Problem> check_cycles(const Schedule& schedule) {
  const StageGraph graph(schedule);
  const Replayed replayed = replay(schedule, graph, TransferRule::Implicit);
  if (replayed.complete) return {};
  int rank = 0;
  while (replayed.position[rank] == schedule.programs[rank].size()) ++rank;
  // Following the waits from any blocked rank leads into the cycle within p steps.
  for (int i = 0; i < schedule.num_ranks; ++i) rank = wait_of(schedule, graph, replayed, rank).rank;
  const int start = rank;
  std::string message = "no rank can continue: ";
  do {
    const Wait wait = wait_of(schedule, graph, replayed, rank);
    if (rank != start) message += ", ";
    message += wait.text;
    rank = wait.rank;
  } while (rank != start);
  return {{"R5", start, static_cast<int>(replayed.position[start]), message}};
}

}  // namespace trireme
