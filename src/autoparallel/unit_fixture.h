#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "autoparallel/eliminate_choices.h"
#include "autoparallel/unit_problem.h"
#include "graph/model_graphs.h"
#include "schema/model_spec.h"

// A layer on a small cluster, for tests of the search inside a stage.

namespace trireme {

inline ModelSpec gpt_model(int64_t d_model, int64_t seq_len) {
  ModelConfig config;
  config.layers = 2;
  config.d_model = d_model;
  config.heads = 16;
  config.vocab_size = 4096;
  config.seq_len = seq_len;
  return with_defaults(config, 0);
}
inline ModelSpec moe_model() {
  ModelConfig config;
  config.family = ModelFamily::Moe;
  config.layers = 2;
  config.d_model = 1024;
  config.heads = 16;
  config.d_ff = 4096;
  config.vocab_size = 4096;
  config.seq_len = 1024;
  config.experts = 16;
  config.top_k = 2;
  return with_defaults(config, 0);
}

// Eight ranks of one node whose links are as fast as NVLink and whose launches cost nothing.
inline Hardware one_node() {
  Hardware hardware;
  hardware.fp32_flops = 20e12;
  hardware.bf16_flops = 300e12;
  hardware.memory_bytes_per_s = 1.5e12;
  hardware.set_nodes(8, {5e-6, 200e9}, {20e-6, 10e9});
  return hardware;
}

// Returns the roles of the groups of a layer along the inner dim, in their order: "tensor tensor
// ...".
inline std::string inner_roles(const PricedUnit& layer, const UnitProblem& unit,
                               const std::vector<int>& choices) {
  std::string text;
  for (size_t group = 0; group < layer.groups().groups().size(); ++group) {
    const size_t node = size_t(unit.node_of_group[group]);
    const Role role = unit.choices[node][size_t(choices[node])].roles[1];
    text += fmt::format("{}={} ", layer.groups().groups()[group].name, name_of(role));
  }
  return text;
}

}  // namespace trireme
