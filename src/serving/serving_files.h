#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "serving/pipeline.h"
#include "serving/tiers.h"

namespace trireme {

// Reads tiers and their workers (docs/formats/serving.md). Hardware files are named relative to
// `folder`. One error names every problem with its line.
Result<Tiers> parse_tiers(std::string_view text, const std::string& source,
                          const std::string& folder);
Result<Tiers> load_tiers(const std::string& path);

// Reads a pipeline that is served on these tiers: its kinds of workers and its tiers must be there.
// The speeds of language models are priced, except where the file has a speed. Model files are
// named relative to `folder`.
Result<ServedPipeline> parse_pipeline(std::string_view text, const std::string& source,
                                      const std::string& folder, const Tiers& tiers);
Result<ServedPipeline> load_pipeline(const std::string& path, const Tiers& tiers);

}  // namespace trireme
