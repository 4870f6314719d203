#pragma once

#include <algorithm>
#include <compare>
#include <string>
#include <vector>

#include "schema/run_config_choices.h"

namespace trireme {

// An entry of parallel.layers: how the tp ranks share out the layers that a pattern matches, in
// which `*` stands for any text. It is matched with the name of a layer ("layers.5.fc") and with
// what follows one of its dots ("fc"). The first entry that matches a layer decides.
struct LayerRule {
  std::string match;
  LayerStrategy strategy = LayerStrategy::Tensor;
  friend auto operator<=>(const LayerRule&, const LayerRule&) = default;
};

// True if a rule has the strategy Spatial.
inline bool cuts_image_rows(const std::vector<LayerRule>& rules) {
  return std::any_of(rules.begin(), rules.end(),
                     [](const LayerRule& rule) { return rule.strategy == LayerStrategy::Spatial; });
}

// Returns the rules as TOML, such as [{match = "conv*", strategy = "data"}].
std::string layer_rules_text(const std::vector<LayerRule>& rules);

}  // namespace trireme
