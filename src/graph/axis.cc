#include "graph/axis.h"

namespace trireme {

std::string_view name_of(Axis axis) {
  constexpr std::string_view kNames[kNumAxes] = {
      "token",        "visit",       "sequence",   "width",       "head",         "kv_head",
      "head_width",   "rope_width",  "key_width",  "value_width", "latent",       "query_latent",
      "index_head",   "index_width", "chosen_key", "hidden",      "dense_hidden", "shared_hidden",
      "vocabulary",   "position",    "expert",     "choice",      "adapter_rank", "softmax_part",
      "sample",       "row",         "column",     "channel",     "feature",      "window_row",
      "window_column"};
  return kNames[int(axis)];
}

char letter_of(Axis axis) { return "TRnCHKDpQWLlIJGFMSVPEkr3syxcfab"[int(axis)]; }

}  // namespace trireme
