#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "compile/run_plan.h"

namespace trireme {

// The models of one shape: so many heads more at each size, the same width of a head, and layers,
// kv heads, d_model and d_ff in the ratios of the configured model; kv heads that tp does not share
// evenly, or a single one, stay as they are. All other keys stay.
class ModelSizes {
 public:
  explicit ModelSizes(const RunPlan& started);

  // The model of a size from 1 on. `configured()` is the size of the configured model.
  ModelConfig at(int64_t size) const;
  int64_t configured() const { return model_.heads / heads_of_size_; }

 private:
  ModelConfig config_;
  ModelSpec model_;
  int64_t heads_of_size_ = 1;  // heads by which neighbouring sizes differ
  bool keeps_kv_heads_ = false;
  int64_t layers_step_ = 1;  // layers come in such numbers, so that stages stay even
  int64_t least_layers_ = 1;
  int64_t d_ff_step_ = 1;
};

// The largest model that fits with one ZeRO level and memory.offload.
struct MaxModelRow {
  int zero = 0;
  OffloadChoice offload = OffloadChoice::None;
  int64_t size = 0;  // of ModelSizes; 0: not even the smallest one fits
  ModelConfig model = {};
  int64_t params = 0;
  int64_t needed_bytes = 0;  // of the plan of this model
  std::string next_refused;  // why the next size is refused
};

struct MaxModels {
  std::vector<MaxModelRow> rows;  // ZeRO 0 to 3, each with every memory.offload
  MaxModelRow configured;         // the row of the configured run
  int64_t available_bytes = 0;    // of one rank, or of all ranks that share this machine
  bool is_of_rank = true;
};

// Finds the largest models by bisection. Every size that is tried is compiled, so that its memory
// is known to the byte. Everything but the size of the model, ZeRO and offload stays as configured.
Result<MaxModels> max_models(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
