#include "program/write_schedule.h"

#include <fmt/format.h>

#include <ostream>
#include <string>

#include "base/check.h"
#include "program/stage_graph.h"

namespace trireme {
namespace {

// Spans of F and B of each (stage, micro-batch), where the arrows begin and end.
class Messages {
 public:
  Messages(const Schedule& schedule, const Timeline& timeline)
      : schedule_(schedule), graph_(schedule) {
    const size_t cells = static_cast<size_t>(graph_.num_stages()) * schedule.num_microbatches;
    forward_.resize(cells);
    backward_.resize(cells);
    for (int rank = 0; rank < schedule.num_ranks; ++rank) {
      for (size_t i = 0; i < schedule.programs[rank].size(); ++i) {
        const Action& action = schedule.programs[rank][i];
        const Span& span = timeline[rank][i];
        const bool is_pair = action.kind == ActionKind::FB;
        if (is_pair || action.kind == ActionKind::F) {
          forward_[cell({rank, action.chunk}, action.microbatch)] = span;
        }
        if (is_pair) {
          backward_[cell({rank, action.chunk_b}, action.microbatch_b)] = span;
        } else if (action.kind == ActionKind::B || action.kind == ActionKind::BW) {
          backward_[cell({rank, action.chunk}, action.microbatch)] = span;
        }
      }
    }
  }

  void write(ChromeTraceWriter& writer, int process) const {
    int64_t id = 0;
    for (int rank = 0; rank < schedule_.num_ranks; ++rank) {
      for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
        const StagePlace here{rank, chunk};
        const StagePlace next = graph_.next(rank, chunk);
        if (!next.exists() || next.rank == rank) continue;
        const MicrobatchRange range = microbatches_of(schedule_, chunk);
        for (int k = range.first; k < range.first + range.count; ++k) {
          const auto arrow = [&](StagePlace from, const Span& made, StagePlace to,
                                 const Span& used) {
            writer.arrow((int64_t{process} << 32) + id++, {process, from.rank}, middle(made),
                         {process, to.rank}, middle(used));
          };
          arrow(here, forward_[cell(here, k)], next, forward_[cell(next, k)]);
          arrow(next, backward_[cell(next, k)], here, backward_[cell(here, k)]);
        }
      }
    }
  }

 private:
  static double middle(const Span& span) { return (span.start_s + span.end_s) / 2; }
  size_t cell(StagePlace place, int microbatch) const {
    return static_cast<size_t>(graph_.stage(place.rank, place.chunk)) * schedule_.num_microbatches +
           microbatch;
  }

  const Schedule& schedule_;
  StageGraph graph_;
  std::vector<Span> forward_;   // [stage, micro-batch]
  std::vector<Span> backward_;  // [stage, micro-batch]
};

}  // namespace

std::string_view name_of(StagePlacement placement) {
  switch (placement) {
    case StagePlacement::Loop:
      return "loop";
    case StagePlacement::V:
      return "v";
    case StagePlacement::Bidir:
      return "bidir";
  }
  TRIREME_CHECK(false, "unknown StagePlacement");
}

void write_text(std::ostream& out, const Schedule& schedule) {
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    out << "rank " << rank << ": " << to_string(schedule.programs[rank], schedule.num_chunks)
        << '\n';
  }
}

void write_jsonl(std::ostream& out, const Schedule& schedule, const OpDurations& durations) {
  out << fmt::format(R"({{"meta":{{"p":{},"m":{},"v":{},"layout":"{}",)"
                     R"("durations":{{"F":{},"B":{},"W":{},"comm":{}}},)"
                     R"("kind":"{}"}}}})",
                     schedule.num_ranks, schedule.num_microbatches, schedule.num_chunks,
                     name_of(schedule.placement), durations.f, durations.b, durations.w,
                     durations.comm, schedule.kind);
  out << '\n';
  const auto in_direction = [&](int chunk, int microbatch) {
    return microbatch - microbatches_of(schedule, chunk).first;
  };
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    out << R"({"rank":)" << rank << R"(,"ops":[)";
    bool is_first = true;
    for (const Action& action : schedule.programs[rank]) {
      if (!computes(action.kind)) continue;
      out << fmt::format(R"({}{{"op":"{}","chunk":{},"microbatch":{})", is_first ? "" : ",",
                         name_of(action.kind), action.chunk,
                         in_direction(action.chunk, action.microbatch));
      if (action.kind == ActionKind::FB) {
        out << fmt::format(R"(,"chunk_b":{},"microbatch_b":{})", action.chunk_b,
                           in_direction(action.chunk_b, action.microbatch_b));
      }
      out << '}';
      is_first = false;
    }
    out << "]}\n";
  }
}

void write_trace(ChromeTraceWriter& writer, const Schedule& schedule, const Timeline& timeline,
                 int process, std::string_view process_name) {
  writer.name_process(process, process_name);
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    const ChromeTraceWriter::Track track{process, rank};
    writer.name_track(track, fmt::format("rank {}", rank));
    for (size_t i = 0; i < schedule.programs[rank].size(); ++i) {
      const Action& action = schedule.programs[rank][i];
      const Span& span = timeline[rank][i];
      if (span.end_s <= span.start_s && !computes(action.kind)) continue;
      std::string args;
      if (action.chunk >= 0) {
        args = fmt::format(R"("stage":{},"chunk":{},"microbatch":{})",
                           stage_of(schedule, rank, action.chunk), action.chunk, action.microbatch);
      }
      writer.complete(track, to_string(action, schedule.num_chunks), name_of(action.kind),
                      span.start_s, span.end_s, args);
    }
  }
  Messages(schedule, timeline).write(writer, process);
}

}  // namespace trireme
