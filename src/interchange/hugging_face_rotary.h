#pragma once

#include "interchange/hugging_face_fields.h"
#include "schema/model_spec.h"

namespace trireme {

// Settings that all families but GPT-2 share, with the library's defaults for absent keys.
struct RotaryDefaults {
  int64_t seq_len = 2048;
  double rope_theta = 10000.0;
  const char* norm_eps_key = "rms_norm_eps";
  double norm_eps = 1e-6;
  bool tied_head = false;
  ActivationChoice activation = ActivationChoice::Swiglu;
};

// Reads the sizes, the activation, the norms and the rotary positions.
void read_rotary_family(const HuggingFaceFields& fields, const RotaryDefaults& defaults,
                        ModelConfig& model);
void refuse_biases(const HuggingFaceFields& fields);

}  // namespace trireme
