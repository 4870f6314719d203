#include "observe/what_if_json.h"

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json spent_json(const WhatIf& what_if, int position) {
  const RankSpent& spent = what_if.step->ranks()[size_t(position)];
  return {{"rank", position},
          {"busy_s", spent.busy_s},
          {"in_layers_s", spent.in_layers_s},
          {"for_stages_s", spent.for_stages_s},
          {"tail_s", spent.tail_s},
          {"at_end_s", spent.at_end_s}};
}

}  // namespace

Json what_if_json(const WhatIf& what_if) {
  Json causes = Json::array();
  for (const Cause& cause : what_if.causes) {
    causes.push_back({{"option", cause.option},
                      {"alone_s", cause.alone_s},
                      {"added_s", cause.alone_s - what_if.undisturbed_s},
                      {"without_s", cause.without_s}});
  }
  Json waiting = Json::array();
  for (const WaitingRanks& group : what_if.waiting) {
    waiting.push_back({{"who", group.who},
                       {"ranks", group.num_ranks},
                       {"in_transfers_s", group.in_transfers_s},
                       {"in_layers_s", group.in_layers_s},
                       {"for_stages_s", group.for_stages_s},
                       {"at_end_s", group.at_end_s}});
  }
  return {{"step_s", what_if.step_s()},
          {"undisturbed_s", what_if.undisturbed_s},
          {"added_s", what_if.step_s() - what_if.undisturbed_s},
          {"causes", causes},
          {"waiting", waiting},
          {"slowest", spent_json(what_if, what_if.step->slowest())},
          {"median", spent_json(what_if, what_if.step->median())}};
}

}  // namespace trireme
