#include "schema/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace trireme {
namespace {

// Text of the gradient slot: "" for "overwrite slot 0", else "+" and "@slot".
std::string grad_text(const Action& action) {
  std::string text = action.accumulate ? "+" : "";
  if (action.grad_slot > 0) text += fmt::format("@{}", action.grad_slot);
  return text;
}

std::string microbatch_text(int microbatch, int chunk, int num_chunks) {
  std::string text = microbatch >= 0 ? fmt::format("{}", microbatch) : "";
  if (num_chunks > 1 && chunk >= 0) text += fmt::format(".{}", chunk);
  return text;
}

// Returns "[2]" or "[2:5]"; "" for the whole chunk.
std::string units_text(const Action& action) {
  if (action.num_units == 0) return "";
  if (action.num_units == 1) return fmt::format("[{}]", action.first_unit);
  return fmt::format("[{}:{}]", action.first_unit, action.first_unit + action.num_units);
}

std::string peer_text(const Action& action) {
  if (action.peer < 0) return "";
  const bool sends =
      action.kind == ActionKind::SendActivation || action.kind == ActionKind::SendGrad;
  return fmt::format("{}{}", sends ? '>' : '<', action.peer);
}

}  // namespace

std::string_view name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::F:
      return "F";
    case ActionKind::B:
      return "B";
    case ActionKind::W:
      return "W";
    case ActionKind::BW:
      return "BW";
    case ActionKind::FB:
      return "FB";
    case ActionKind::SendActivation:
      return "SF";
    case ActionKind::RecvActivation:
      return "RF";
    case ActionKind::SendGrad:
      return "SB";
    case ActionKind::RecvGrad:
      return "RB";
    case ActionKind::SumGrad:
    case ActionKind::JoinDirections:
      return "Sum";
    case ActionKind::ReduceGrad:
    case ActionKind::JoinTiedTable:
      return "Reduce";
    case ActionKind::Unshard:
      return "Unshard";
    case ActionKind::Reshard:
      return "Reshard";
    case ActionKind::OffloadUnits:
    case ActionKind::OffloadPiece:
      return "Offload";
    case ActionKind::FetchUnits:
    case ActionKind::FetchPiece:
      return "Fetch";
    case ActionKind::Step:
    case ActionKind::StepPiece:
      return "Step";
    case ActionKind::Validate:
      return "Validate";
  }
  TRIREME_CHECK(false, "unknown ActionKind");
}

int num_stages(const Schedule& schedule) {
  return schedule.placement == StagePlacement::Bidir ? schedule.num_ranks
                                                     : schedule.num_ranks * schedule.num_chunks;
}

int stage_of(const Schedule& schedule, int rank, int chunk) {
  const int p = schedule.num_ranks;
  const int mirrored = chunk % 2 == 1 ? p - 1 - rank : rank;
  switch (schedule.placement) {
    case StagePlacement::Loop:
      return chunk * p + rank;
    case StagePlacement::V:
      return chunk * p + mirrored;
    case StagePlacement::Bidir:
      return mirrored;
  }
  TRIREME_CHECK(false, "unknown StagePlacement");
}

std::string to_string(const Action& action, int num_chunks) {
  const std::string place = microbatch_text(action.microbatch, action.chunk, num_chunks);
  switch (action.kind) {
    case ActionKind::FB:
      return fmt::format("F{}&BW{}{}", place,
                         microbatch_text(action.microbatch_b, action.chunk_b, num_chunks),
                         grad_text(action));
    case ActionKind::SumGrad:
      return fmt::format("Sum{}@{}+@{}", microbatch_text(-1, action.chunk, num_chunks),
                         action.grad_slot, action.grad_slot_b);
    case ActionKind::JoinDirections:
      return fmt::format("Sum{}@{}+&{}", microbatch_text(-1, action.chunk, num_chunks),
                         action.grad_slot, action.peer);
    case ActionKind::JoinTiedTable:
      return fmt::format("Reduce{}&{}", place, action.peer);
    case ActionKind::FetchUnits:
    case ActionKind::OffloadUnits:
    case ActionKind::Unshard:
    case ActionKind::Reshard:
      return fmt::format("{}{}{}", name_of(action.kind),
                         microbatch_text(-1, action.chunk, num_chunks), units_text(action));
    case ActionKind::Step:
    case ActionKind::Validate:
      return std::string(name_of(action.kind));
    default:
      break;
  }
  return fmt::format("{}{}{}{}{}{}{}", action.beside == Beside::Previous ? "&" : "",
                     name_of(action.kind), place, units_text(action), grad_text(action),
                     peer_text(action), action.beside == Beside::Next ? "&" : "");
}

std::string to_string(const Program& program, int num_chunks) {
  std::string text;
  for (const Action& action : program) {
    if (!text.empty()) text += ' ';
    text += to_string(action, num_chunks);
  }
  return text;
}

bool computes(ActionKind kind) {
  return kind == ActionKind::F || kind == ActionKind::B || kind == ActionKind::W ||
         kind == ActionKind::BW || kind == ActionKind::FB;
}

bool is_transfer(ActionKind kind) {
  return kind == ActionKind::SendActivation || kind == ActionKind::RecvActivation ||
         kind == ActionKind::SendGrad || kind == ActionKind::RecvGrad;
}

bool has_pairs(const Program& program) {
  return std::any_of(program.begin(), program.end(),
                     [](const Action& action) { return action.beside == Beside::Next; });
}

bool joins_ranks(ActionKind kind) {
  return kind == ActionKind::JoinDirections || kind == ActionKind::JoinTiedTable;
}

bool is_of_piece(ActionKind kind) {
  return kind == ActionKind::FetchPiece || kind == ActionKind::StepPiece ||
         kind == ActionKind::OffloadPiece;
}

}  // namespace trireme
