#pragma once

#include <string>
#include <vector>

#include "base/shape.h"
#include "spec/model_spec.h"

namespace trireme {

enum class ParamInit { Normal, Zero, One };

struct ParamSpec {
  std::string name;  // "layers.3.attn.wq": the same on every layout
  Shape shape;
  ParamInit init = ParamInit::Normal;
  double stddev = 0.0;  // Normal only
  bool decay = false;   // weight decay: matrices only
  bool adjoins_previous =
      false;  // lies in memory right behind the one before: one matmul reads both
  // Above 0: not trained; its gradient counts an expert's tokens, and Step moves it by so much
  // towards an even load.
  double balance_rate = 0.0;
};

// The parameters of a stage in model order. A tied head has no entry of its own unless the stage
// holds the head without the embedding.
std::vector<ParamSpec> param_table(const ModelSpec& model, const StageSpec& stage);
int64_t num_params(const ModelSpec& model);
// Those that one token meets: all but the experts that it does not visit.
int64_t num_active_params(const ModelSpec& model);

}  // namespace trireme
