#include <gtest/gtest.h>

#include <cmath>

#include "interchange/interchange_fixture.h"
#include "interchange/logits.h"

// The logits of the small models by another implementation: transformers 5.24 has read the folders
// that we write, and has computed in double.
namespace trireme {
namespace {

struct ForeignLogits {
  const char* model;
  std::vector<double> of_last_token;  // the first of the vocabulary
};

const ForeignLogits kForeignLogits[] = {
    {"llama",
     {-0.737072, 0.747229, -0.153671, -1.091905, -0.217698, -0.499194, 0.009466, 0.049627,
      -0.451829, -0.404041, 1.203363, -0.720542}},
    {"qwen3",
     {0.794052, -0.216457, 1.093346, 0.808544, 0.734723, -0.444368, 0.338515, -1.408628, 0.077568,
      0.313520, 0.237799, -1.371378}},
    {"qwen3_moe",
     {-0.241318, -0.256024, 1.005579, 2.166227, 1.745774, -0.214174, -0.190976, 0.006592, 0.448185,
      0.227152, -0.317837, -0.161799}},
    {"mistral_untied",
     {1.761304, -0.630702, 0.755072, -0.431845, 2.140463, -0.167507, -0.744805, 0.519088, 0.520681,
      0.113363, -0.497705, -0.085532}},
    {"mixtral_window",
     {0.435545, -0.618692, 0.709831, 0.734463, -1.062477, -0.570897, -0.457664, -0.264070,
      -0.139342, 0.740339, -0.432364, 2.422467}},
    {"deepseek_v3",
     {-0.418440, 0.614340, 0.294801, 1.108918, -1.040543, 0.943465, 0.231781, 1.177236, -1.603135,
      -0.471156, -0.558869, 3.380511}},
    {"deepseek_v3_without_q_latent",
     {-0.689652, -1.151752, -0.727990, -1.040337, -0.950430, 0.823312, 0.842227, -0.767237,
      0.847527, -0.161441, -0.025211, -0.202462}},
};

TEST(ForeignLogits, AreThoseOfAnotherImplementation) {
  for (const ForeignLogits& expected : kForeignLogits) {
    const InterchangeModel model = random_model(expected.model);
    const ModelSpec& spec = model.weights.model();
    const std::vector<int32_t> tokens = probe_tokens(spec);
    const std::vector<float> logits = logits_of(model.weights, tokens, 1);
    const size_t last = (tokens.size() - 1) * size_t(spec.vocab_size);
    for (size_t i = 0; i < expected.of_last_token.size(); ++i) {
      EXPECT_NEAR(logits[last + i], expected.of_last_token[i], 1e-5) << expected.model << " " << i;
    }
  }
}

}  // namespace
}  // namespace trireme
