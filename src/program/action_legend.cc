#include "program/action_legend.h"

#include <fmt/format.h>

#include <set>
#include <string_view>

namespace trireme {
namespace {

std::string_view words_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::F:
      return "F forward";
    case ActionKind::B:
      return "B input gradient";
    case ActionKind::W:
      return "W weight gradient";
    case ActionKind::BW:
      return "BW both gradients";
    case ActionKind::FB:
      return "F&BW forward and both gradients beside each other";
    case ActionKind::SendActivation:
      return "SF send activation";
    case ActionKind::RecvActivation:
      return "RF receive activation";
    case ActionKind::SendGrad:
      return "SB send gradient";
    case ActionKind::RecvGrad:
      return "RB receive gradient";
    case ActionKind::SumGrad:
      return "Sum@ add slots of gradients";
    case ActionKind::JoinDirections:
      return "Sum+& add gradients of the rank with the other direction";
    case ActionKind::ReduceGrad:
      return "Reduce sum gradients over dp";
    case ActionKind::JoinTiedTable:
      return "Reduce& sum gradients of the tied table";
    case ActionKind::Unshard:
      return "Unshard gather parameters";
    case ActionKind::Reshard:
      return "Reshard free gathered parameters";
    case ActionKind::OffloadUnits:
    case ActionKind::OffloadPiece:
      return "Offload write to the file of memory.offload";
    case ActionKind::FetchUnits:
    case ActionKind::FetchPiece:
      return "Fetch read from the file of memory.offload";
    case ActionKind::Step:
    case ActionKind::StepPiece:
      return "Step update";
    case ActionKind::Validate:
      return "Validate undo an update whose norm was wrong";
  }
  return "";
}

}  // namespace

std::string action_legend(const Program& program, int num_chunks) {
  std::set<std::string_view> known;
  std::string legend;
  const auto add = [&](std::string_view words) {
    if (!known.insert(words).second) return;
    legend += fmt::format("{}{}", legend.empty() ? "" : ", ", words);
  };
  for (const Action& action : program) add(words_of(action.kind));
  bool has_number = false;
  for (const Action& action : program) has_number |= action.microbatch >= 0;
  if (has_number) add(num_chunks > 1 ? "3.1 micro-batch 3 of chunk 1" : "3 micro-batch 3");
  for (const Action& action : program) {
    const std::string text = to_string(action, num_chunks);
    if (text.find('[') != std::string::npos) {
      add(action.num_units > 1 ? "[2:5] units 2 to 4" : "[2] unit 2");
    }
    if (computes(action.kind) && text.find('+') != std::string::npos) add("+ adds to the gradient");
    if (computes(action.kind) && text.find('@') != std::string::npos) add("@1 in slot 1");
    if (action.beside != Beside::None) add("& actions run beside each other");
    if (text.find('>') != std::string::npos) add(">1 to rank 1 of the pipeline");
    if (text.find('<') != std::string::npos) add("<1 from rank 1 of the pipeline");
  }
  return legend;
}

}  // namespace trireme
