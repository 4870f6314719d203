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
    case OpKind::Attention:
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

std::vector<std::pair<std::string, Color>> report_palette() {
  std::vector<std::pair<std::string, Color>> palette;
  for (const ActionKind kind :
       {ActionKind::F, ActionKind::B, ActionKind::W, ActionKind::BW, ActionKind::FB,
        ActionKind::SumGrad, ActionKind::Unshard, ActionKind::OffloadUnits, ActionKind::Step}) {
    palette.emplace_back("op-" + std::string(drawn_kind(kind)), color_of(kind));
  }
  palette.insert(palette.end(),
                 {{"op-waited", kSlate},     {"mem-params", kBlue},        {"mem-grads", kRed},
                  {"mem-optimizer", kTeal},  {"mem-activations", kOrange}, {"mem-comm", kViolet},
                  {"mem-scratch", kGrey},    {"mem-snapshot", kSand},      {"time-compute", kBlue},
                  {"time-optimizer", kTeal}, {"time-data", kGreen},        {"time-exposed", kRed},
                  {"time-dp", kRed},         {"time-tp", kViolet},         {"time-pp", kOrange},
                  {"time-cp", kPink},        {"time-ep", kSand},           {"time-world", kSky},
                  {"time-file", kSlate},     {"time-bubble", kGrey}});
  return palette;
}

}  // namespace trireme
