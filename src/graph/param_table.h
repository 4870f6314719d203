#pragma once

#include <string>
#include <vector>

#include "base/shape.h"
#include "graph/graph.h"
#include "schema/model_spec.h"
#include "schema/stage_shape.h"

namespace trireme {

// A parameter with its name in the model and the extents that a rank holds.
struct ParamSpec {
  std::string name;  // "layers.3.attn.wq": the same on every layout
  Shape shape;
  ParamInit init = ParamInit::Normal;
  double stddev = 0.0;                     // Normal only
  double value = 0.0;                      // Constant only
  bool decay = false;                      // weight decay: matrices only
  bool adjoins_previous = false;           // as Param
  double balance_rate = 0.0;               // as Param
  double running_rate = 0.0;               // as Param
  int64_t expert = -1;                     // as Param
  int unit = 0;                            // of the stage
  bool is_table = false;                   // the token table, which the head may use too
  bool is_hidden_matrix = false;           // a matrix of a layer, not of the embedding or the head
  bool is_trained = true;                  // as Param
  bool is_adapter = false;                 // as Param
  LogitSide logit_side = LogitSide::None;  // as Param
};

// "layers.3.attn.wq"; what belongs to the embedding or the head has its full name already.
std::string full_name(const Graph& unit, const Param& param);

// The parameters of a stage in model order, derived from its graphs. A tied head has no entry of
// its own unless the stage holds the head without the embedding.
std::vector<ParamSpec> param_table(const ModelSpec& model, const StageSpec& stage);
// The same with the extents of one rank's parts, without experts of other ranks.
std::vector<ParamSpec> local_param_table(const ModelSpec& model, const StageSpec& stage,
                                         const StageShape& shape);

int64_t num_params(const ModelSpec& model);
// Those whose gradients are computed: all, or adapters alone.
int64_t num_trained_params(const ModelSpec& model);
// Those that one token meets: all but the experts that it does not visit.
int64_t num_active_params(const ModelSpec& model);

}  // namespace trireme
