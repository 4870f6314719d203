#include "program/offload.h"

#include <fmt/format.h>

#include <utility>

#include "memory/offload_pieces.h"

namespace trireme {
namespace {

class OffloadCheck {
 public:
  OffloadCheck(const Program& program, const OffloadShape& num_pieces)
      : program_(program), num_pieces_(num_pieces), holders_(kStagingBuffers, kNobody) {
    for (const int count : num_pieces) states_.emplace_back(size_t(count), State::InFile);
  }

  std::vector<Problem> run() && {
    for (position_ = 0; position_ < int(program_.size()); ++position_) {
      const Action& action = program_[size_t(position_)];
      if (is_of_piece(action.kind)) {
        follow(action);
      } else if (action.kind == ActionKind::Step) {
        has_norm_ = true;
      }
    }
    position_ = -1;
    for (size_t chunk = 0; chunk < states_.size(); ++chunk) {
      for (size_t piece = 0; piece < states_[chunk].size(); ++piece) {
        if (states_[chunk][piece] == State::BroughtBack) continue;
        report(fmt::format("piece {} of chunk {} is not updated and written back", piece, chunk));
      }
    }
    return std::move(problems_);
  }

 private:
  enum class State { InFile, Fetched, Updated, BroughtBack };
  using Piece = std::pair<int, int>;

  void report(std::string message) {
    problems_.push_back({"offload", -1, position_, std::move(message)});
  }
  std::string text(const Action& action) const {
    return to_string(action, int(num_pieces_.size()));
  }

  void follow(const Action& action) {
    const bool exists = action.chunk >= 0 && action.chunk < int(states_.size()) &&
                        action.microbatch >= 0 &&
                        action.microbatch < int(states_[size_t(action.chunk)].size());
    if (!exists) return report(text(action) + " names a piece that the rank does not have");
    State& state = states_[size_t(action.chunk)][size_t(action.microbatch)];
    const Piece piece{action.chunk, action.microbatch};
    Piece& holder =
        holders_[size_t(staging_buffer_of(num_pieces_, action.chunk, action.microbatch))];
    if (action.kind == ActionKind::FetchPiece) {
      if (holder != kNobody) {
        report(fmt::format("{} takes the buffer of piece {} of chunk {}", text(action),
                           holder.second, holder.first));
      }
      advance(action, state, State::InFile, State::Fetched);
      holder = piece;
    } else if (action.kind == ActionKind::StepPiece) {
      if (!has_norm_) report(text(action) + " comes before Step");
      advance(action, state, State::Fetched, State::Updated);
    } else {
      advance(action, state, State::Updated, State::BroughtBack);
      if (holder == piece) holder = kNobody;
    }
  }

  void advance(const Action& action, State& state, State from, State to) {
    if (state != from)
      report(text(action) +
             " is out of order: a piece is fetched, updated, "
             "brought back");
    state = to;
  }

  static constexpr Piece kNobody = {-1, -1};
  const Program& program_;
  const OffloadShape& num_pieces_;
  int position_ = -1;
  bool has_norm_ = false;
  std::vector<std::vector<State>> states_;  // [chunk][piece]
  std::vector<Piece> holders_;              // [buffer]
  std::vector<Problem> problems_;
};

}  // namespace

int staging_buffer_of(const OffloadShape& num_pieces, int chunk, int piece) {
  int turn = piece;
  for (int before = 0; before < chunk; ++before) turn += num_pieces[size_t(before)];
  return turn % kStagingBuffers;
}

Program add_offload(const Program& program, const OffloadShape& num_pieces) {
  std::vector<std::pair<int, int>> pieces;
  for (size_t chunk = 0; chunk < num_pieces.size(); ++chunk) {
    for (int piece = 0; piece < num_pieces[chunk]; ++piece) pieces.emplace_back(chunk, piece);
  }
  constexpr size_t kAhead = kStagingBuffers - 1;
  Program result;
  const auto add = [&](ActionKind kind, size_t i) {
    if (i >= pieces.size()) return;
    result.push_back(
        {.kind = kind, .chunk = int16_t(pieces[i].first), .microbatch = int32_t(pieces[i].second)});
  };
  for (const Action& action : program) {
    const bool is_step = action.kind == ActionKind::Step;
    for (size_t i = 0; is_step && i < kAhead; ++i) add(ActionKind::FetchPiece, i);
    result.push_back(action);
    for (size_t i = 0; is_step && i < pieces.size(); ++i) {
      add(ActionKind::StepPiece, i);
      add(ActionKind::OffloadPiece, i);
      add(ActionKind::FetchPiece, i + kAhead);
    }
  }
  return result;
}

std::vector<Problem> check_offload(const Program& program, const OffloadShape& num_pieces) {
  return OffloadCheck(program, num_pieces).run();
}

}  // namespace trireme
