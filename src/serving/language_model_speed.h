#pragma once

#include "schema/hardware.h"
#include "schema/model_spec.h"
#include "serving/pipeline.h"

namespace trireme {

// What a device needs to answer requests with a language model in bf16. A batch of requests is
// prefilled together, then decoded token by token.
struct LanguageModelSpeed {
  double prefill_s = 0.0;      // of the prompts of a batch
  double decode_step_s = 0.0;  // of one token of every request, at the mean length of the context
  double requests_per_s = 0.0;
  double weight_bytes = 0.0;
  double cache_bytes = 0.0;  // keys and values of a batch at its full length

  double memory_bytes() const { return weight_bytes + cache_bytes; }
};

// docs/serving_plan.md has the formulas. Kernels are launched in advance, so launches take no time
// in the decoding of a device that is not a processor.
LanguageModelSpeed language_model_speed(const ModelSpec& model, const LanguageModelUse& use,
                                        const Hardware& hardware);

}  // namespace trireme
