#pragma once

#include "base/result.h"
#include "schema/config_rules.h"
#include "schema/mesh.h"
#include "schema/model_spec.h"

namespace trireme {

// What the degrees of parallel.* must divide. Several rules bind one degree: the first that is
// broken is named, and with it the values that keep all of them. They are rules of the model with
// its defaults filled in; `data_vocab_size` is 0 where nobody knows it.
void degree_rules(ConfigRules& rules, const RunConfig& config, int64_t data_vocab_size);

// The ZeRO level that the ranks of dp share their state by: 0 where no other rank of dp exists.
// With parameter servers a push is a reduction to the servers and a pull is a gather from them, so
// they own the shards that ZeRO would give to ranks.
int zero_level(const ParallelConfig& parallel);

// The same rules for the ranks of one copy of a model: whether the tp, cp and ep ranks of the mesh
// can share it out. Names the first rule that is broken.
Status check_degrees(const ModelSpec& model, const Mesh& mesh, ContextExchange exchange);

}  // namespace trireme
