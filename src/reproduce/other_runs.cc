#include "reproduce/other_runs.h"

#include "reproduce/price_runs.h"
#include "reproduce/published_clusters.h"
#include "reproduce/tables.h"

namespace trireme {

Result<Reproduction> reproduce_other_runs() {
  Reproduction result;
  result.source =
      "publications that no other table holds; src/reproduce/other_runs_*.cc names them";
  result.notes = {
      "Nothing was fitted on these runs, but two effects, the pieces of tp and the results of "
      "gradients, were added after looking at NVIDIA's. Where a publication prints TFLOP/s or "
      "tokens/s of a device, the measured step is the FLOPs or the tokens of a step over that "
      "rate.",
      "Micro-batches, schedules and recomputation are those that the publications or their scripts "
      "state. Llama 3 405B on 16,384 H100 is left out: its chunks are not published.",
      "BLOOM's page has one layout twice (dp 8, tp 4, pp 12, micro 2); the slower row, 113.54 s, "
      "is left out. Its dropout and its blocking launches were looked up because its rows came out "
      "too fast.",
      "Embeddings and heads that publications keep apart, rotary positions of Nemotron-4 and "
      "GPT-NeoX, and ALiBi of BLOOM are priced as those of a GPT.",
  };
  const std::vector<PublishedRun> h100 = other_runs_on_h100(), a100 = other_runs_on_a100(),
                                  of_100_gbit = other_runs_on_a100_of_100_gbit(),
                                  a100_40g = other_runs_on_a100_40g(),
                                  h100_of_800_gbit = fms_runs_on_h100();
  TRIREME_TRY_DONE(price_runs({{h100, dgx_h100()},
                               {a100, dgx_a100_80g()},
                               {of_100_gbit, a100_80g_of_100_gbit()},
                               {a100_40g, dgx_a100_40g()},
                               {h100_of_800_gbit, dgx_h100_of_800_gbit()}},
                              result));
  return result;
}

}  // namespace trireme
