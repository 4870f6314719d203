#include "program/palette.h"

#include <fmt/format.h>

namespace trireme {
namespace {

constexpr Color kBlue = {0x7f, 0xb2, 0xe8};
constexpr Color kOrange = {0xf7, 0xb5, 0x5c};
constexpr Color kGreen = {0x8f, 0xc9, 0x7e};
constexpr Color kRed = {0xe9, 0x93, 0x93};
constexpr Color kGrey = {0xb9, 0xb9, 0xc4};
constexpr Color kTeal = {0x5f, 0xc4, 0xb0};
constexpr Color kViolet = {0xc3, 0xae, 0xe6};
constexpr Color kSand = {0xd8, 0xc4, 0x8f};
constexpr Color kSky = {0x8f, 0xd0, 0xd8};
constexpr Color kPink = {0xe0, 0xa3, 0xcf};
constexpr Color kSlate = {0x5f, 0x68, 0x77};
// Of pages alone, which show more kinds of things at once than a picture of a schedule.
constexpr Color kDeepBlue = {0x4a, 0x80, 0xc4};
constexpr Color kPeriwinkle = {0x8a, 0x96, 0xe4};
constexpr Color kGold = {0xee, 0xda, 0x6a};
constexpr Color kTaupe = {0xc2, 0xb0, 0xa4};
constexpr Color kLime = {0xc4, 0xdc, 0x78};
constexpr Color kOlive = {0xa6, 0xa8, 0x3e};
constexpr Color kRose = {0xe0, 0x5c, 0x88};
constexpr Color kDeepViolet = {0x84, 0x66, 0xcc};
constexpr Color kBronze = {0xc4, 0x78, 0x30};
constexpr Color kBrown = {0x8a, 0x70, 0x46};
constexpr Color kDeepCyan = {0x3e, 0x96, 0xa8};
constexpr Color kMauve = {0xa8, 0x86, 0xa8};
constexpr Color kBrick = {0xae, 0x4e, 0x42};

}  // namespace

Color color_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::F:
      return kBlue;
    case ActionKind::B:
      return kOrange;
    case ActionKind::W:
      return kGreen;
    case ActionKind::BW:
    case ActionKind::FB:
      return kRed;
    case ActionKind::SumGrad:
    case ActionKind::JoinDirections:
      return kSand;
    case ActionKind::OffloadUnits:
    case ActionKind::FetchUnits:
    case ActionKind::OffloadPiece:
    case ActionKind::FetchPiece:
      return kSky;
    case ActionKind::Step:
    case ActionKind::StepPiece:
      return kTeal;
    default:
      return kViolet;
  }
}

Color color_of(OpKind kind) {
  const std::string_view family = family_of(kind);
  if (family == "product") return kBlue;
  if (family == "attention") return kOrange;
  if (family == "norm") return kGreen;
  if (family == "elementwise") return kGrey;
  if (family == "routing") return kTeal;
  if (family == "redistribution") return kRed;
  return kSand;
}

std::string_view family_of(OpKind kind) {
  switch (kind) {
    case OpKind::Linear:
    case OpKind::GroupedLinear:
    case OpKind::SoftmaxParts:
      return "product";
    case OpKind::ChooseKeys:
    case OpKind::Attention:
    case OpKind::LatentAttention:
      return "attention";
    case OpKind::Norm:
      return "norm";
    case OpKind::Route:
    case OpKind::Count:
    case OpKind::Choose:
    case OpKind::Dispatch:
    case OpKind::Combine:
      return "routing";
    case OpKind::Lookup:
    case OpKind::CrossEntropy:
      return "table or loss";
    case OpKind::Redistribute:
      return "redistribution";
    default:
      return "elementwise";
  }
}

std::string css(Color color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue);
}

std::string_view drawn_kind(ActionKind kind) {
  switch (kind) {
    case ActionKind::F:
    case ActionKind::B:
    case ActionKind::W:
    case ActionKind::BW:
    case ActionKind::FB:
    case ActionKind::SumGrad:
    case ActionKind::JoinDirections:
    case ActionKind::Step:
    case ActionKind::StepPiece:
      return name_of(kind);
    case ActionKind::OffloadUnits:
    case ActionKind::FetchUnits:
    case ActionKind::OffloadPiece:
    case ActionKind::FetchPiece:
      return "memory";
    default:
      return "transfer";
  }
}

std::string_view drawn_kind(const Action& action) {
  return drawn_kind(action.beside == Beside::Next ? ActionKind::FB : action.kind);
}

std::vector<std::pair<std::string, Color>> report_palette() {
  std::vector<std::pair<std::string, Color>> palette;
  for (const ActionKind kind :
       {ActionKind::F, ActionKind::B, ActionKind::W, ActionKind::BW, ActionKind::FB,
        ActionKind::SumGrad, ActionKind::Unshard, ActionKind::OffloadUnits, ActionKind::Step}) {
    palette.emplace_back("op-" + std::string(drawn_kind(kind)), color_of(kind));
  }
  palette.insert(
      palette.end(),
      {{"op-waited", kSlate},     {"mem-params", kPeriwinkle}, {"mem-grads", kRed},
       {"mem-optimizer", kTeal},  {"mem-activations", kGold},  {"mem-comm", kViolet},
       {"mem-scratch", kTaupe},   {"mem-snapshot", kLime},     {"time-compute", kDeepBlue},
       {"time-optimizer", kTeal}, {"time-data", kOlive},       {"time-exposed", kViolet},
       {"time-dp", kRose},        {"time-tp", kDeepViolet},    {"time-pp", kBronze},
       {"time-cp", kPink},        {"time-ep", kBrown},         {"time-world", kDeepCyan},
       {"time-file", kSky},       {"time-bubble", kGrey},      {"time-stragglers", kSlate},
       {"time-other", kMauve},    {"time-saving", kLime},      {"time-redone", kBrick}});
  return palette;
}

}  // namespace trireme
